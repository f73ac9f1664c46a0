package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"replicator"
)

// ErrNotRunning means that no running process can be reached at the configured address.
var ErrNotRunning = errors.New("replicator is not running")

// Client talks to the running program. The zero Client is for a program without HTTP: every call returns ErrNotRunning.
type Client struct {
	Address string // the value of http.listen
	Token   string
}

// Status returns the status of every view.
func (c Client) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	var a statusAnswer
	err := c.call(ctx, answerTime, http.MethodGet, "/api/v1/status", nil, &a)
	return a.Views, err
}

// Alive returns nil if replicator answers.
func (c Client) Alive(ctx context.Context) error {
	return c.call(ctx, answerTime, http.MethodGet, "/healthz", nil, nil)
}

// Ready returns nil if every view runs and its lag is known. Otherwise the error names the views that are not ready,
// with reasons.
func (c Client) Ready(ctx context.Context) error {
	views, err := c.Status(ctx)
	for _, v := range views {
		if reason := notReady(v); reason != "" {
			err = errors.Join(err, fmt.Errorf("view %s is not ready: %s", v.View, reason))
		}
	}
	return err
}

// Wait returns once the views (all, if none is named) include every commit up to the fence.
func (c Client) Wait(ctx context.Context, f Fence, views []string, timeout time.Duration) error {
	// The server accepts FILE:POS in the gtid parameter, too.
	q := url.Values{"view": views, "timeout": {timeout.String()}, "gtid": {f.At}}
	if f.Source != "" {
		q.Set("source", f.Source)
	}
	return c.call(ctx, timeout+answerTime, http.MethodGet, "/api/v1/wait?"+q.Encode(), nil, &waitAnswer{})
}

// Rebuild starts the rebuild of a view.
func (c Client) Rebuild(ctx context.Context, view string, how Rebuild) error {
	return c.call(ctx, answerTime, http.MethodPost, "/api/v1/views/"+url.PathEscape(view)+"/rebuild", how, nil)
}

// Pause stops writing to a view until Resume.
func (c Client) Pause(ctx context.Context, view string) error {
	return c.call(ctx, answerTime, http.MethodPost, "/api/v1/views/"+url.PathEscape(view)+"/pause", nil, nil)
}

func (c Client) Resume(ctx context.Context, view string) error {
	return c.call(ctx, answerTime, http.MethodPost, "/api/v1/views/"+url.PathEscape(view)+"/resume", nil, nil)
}

// Retry retries dead letters. It returns how many it tried and how many of these remain.
func (c Client) Retry(ctx context.Context, which Selection) (tried, left int, err error) {
	var a retryAnswer
	err = c.call(ctx, retryTime, http.MethodPost, "/api/v1/deadletters/retry", which, &a)
	return a.Tried, a.Left, err
}

// Drop removes dead letters and returns their number.
func (c Client) Drop(ctx context.Context, which Selection) (int, error) {
	var a dropAnswer
	err := c.call(ctx, answerTime, http.MethodPost, "/api/v1/deadletters/drop", which, &a)
	return a.Dropped, err
}

// target returns the address to connect to. If the server listens on all addresses, that is the loopback address.
func (c Client) target() (string, error) {
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return "", fmt.Errorf("http.listen: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port), nil
}

// call sends a request and decodes the answer into out. Each call uses a new connection, because a command makes few
// requests.
func (c Client) call(ctx context.Context, most time.Duration, method, path string, in, out any) error {
	if c.Address == "" {
		return fmt.Errorf(`%w, or it can't be reached because http.listen is ""`, ErrNotRunning)
	}
	target, err := c.target()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+target+path, body)
	if err != nil {
		return fmt.Errorf("asking the running replicator: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext}
	// The token is only for the configured address, so the client follows neither proxies nor redirects.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := http.Client{Transport: transport, CheckRedirect: stay}
	answered, err := client.Do(r)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: nothing answers at %s", ErrNotRunning, target)
	}
	if err != nil {
		return fmt.Errorf("asking the running replicator: %w", err)
	}
	defer answered.Body.Close()
	return understand(answered, target, out)
}

const mostAnswer = 64 << 20

func understand(answered *http.Response, target string, out any) error {
	if answered.Header.Get(productHeader) == "" {
		return fmt.Errorf("the program at %s is not replicator. Set http.listen to an unused address", target)
	}
	text, err := io.ReadAll(io.LimitReader(answered.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("asking the running replicator: %w", err)
	}
	if answered.StatusCode >= 300 {
		var a errorAnswer
		if json.Unmarshal(text, &a) != nil || a.Error == "" {
			a.Error = answered.Status
		}
		return &AnswerError{Code: answered.StatusCode, Text: a.Error, Reason: a.Reason}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("can't read the running replicator's answer (%w). It may run another version", err)
	}
	return nil
}

// AnswerError is an error that the running program returned.
type AnswerError struct {
	Code   int // the HTTP status
	Text   string
	Reason string // the answer's reason code: rebuilding, paused or ""
}

func (e *AnswerError) Error() string { return e.Text }

// Is makes errors.Is work across HTTP: it recognizes the running process's error by the HTTP status or the reason code.
func (e *AnswerError) Is(target error) bool {
	switch target {
	case ErrUnknown:
		return e.Code == http.StatusNotFound
	case ErrInvalid:
		return e.Code == http.StatusBadRequest
	case ErrBusy:
		return e.Code == http.StatusConflict
	case replicator.ErrRebuilding:
		return e.Reason == reasonRebuilding
	case replicator.ErrPaused:
		return e.Reason == reasonPaused
	case context.DeadlineExceeded:
		return e.Code == http.StatusGatewayTimeout
	}
	return false
}
