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
	"syscall"
	"time"

	"replicator"
)

// Client talks to a running program.
type Client struct {
	Address string // HOST:PORT, as configured
	Token   string
}

// ErrNotRunning: nothing listens at the address.
var ErrNotRunning = errors.New("no replicator is running there")

// Status asks for the status of every view.
func (c Client) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	var answer struct{ Views []replicator.ViewStatus }
	err := c.do(ctx, http.MethodGet, "/api/v1/status", nil, &answer)
	return answer.Views, err
}

// Wait returns nil once the views include what the fence names, gtid or pos; it gives up after timeout.
func (c Client) Wait(ctx context.Context, gtid, pos string, views []string, timeout time.Duration) error {
	q := url.Values{"timeout": {timeout.String()}}
	if gtid != "" {
		q.Set("gtid", gtid)
	}
	if pos != "" {
		q.Set("pos", pos)
	}
	for _, v := range views {
		q.Add("view", v)
	}
	return c.do(ctx, http.MethodGet, "/api/v1/wait?"+q.Encode(), nil, nil)
}

// Retry tries dead letters again.
func (c Client) Retry(ctx context.Context, s Selection) (tried, left int, err error) {
	var answer struct{ Tried, Left int }
	err = c.do(ctx, http.MethodPost, "/api/v1/deadletters/retry", s, &answer)
	return answer.Tried, answer.Left, err
}

// Drop removes dead letters.
func (c Client) Drop(ctx context.Context, s Selection) (int, error) {
	var answer struct{ Dropped int }
	err := c.do(ctx, http.MethodPost, "/api/v1/deadletters/drop", s, &answer)
	return answer.Dropped, err
}

// do makes one request. An answer that is not a success is an error with what the program said.
func (c Client) do(ctx context.Context, method, path string, body, into any) error {
	if c.Address == "" {
		return fmt.Errorf("[http] listen is \"\" in the configuration: %w", ErrNotRunning)
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(host, port)+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("X-Replicator", "1")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := http.DefaultClient.Do(r)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens on %s: %w", c.Address, ErrNotRunning)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var said struct{ Error string }
		if json.Unmarshal(text, &said) != nil || said.Error == "" {
			said.Error = response.Status
		}
		return errors.New(said.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
