package elastic

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// client sends the requests of Elastic's Go client (esapi). This package renders the bodies and decodes the answers
// itself (ADR 8). If a node can't be reached, the client tries another one. The pipeline does all other retries.
type client struct {
	elastic *elastictransport.Client
	http    *http.Transport
	limit   time.Duration // how long a request may take in total
	held    time.Duration // how long the cluster may wait before it answers (see hold)

	states pace // the number of documents whose states are read at once

	openSearch atomic.Bool
	doubted    atomic.Bool // the client must ask again which product the server is
}

// Timeout is how long to wait for the first byte of an answer, by default (see Config.Timeout). The whole answer may
// take twice as long.
const Timeout = 30 * time.Second

func newClient(c Config) (*client, error) {
	if len(c.Addresses) == 0 {
		return nil, errors.New("the sink has no addresses")
	}
	local := true
	var nodes []*url.URL
	for _, a := range c.Addresses {
		u, err := url.Parse(a)
		if err != nil || u.Host == "" {
			return nil, errors.New("an address is not a URL of the form http://HOST:PORT or https://HOST:PORT")
		}
		u.Path = strings.TrimRight(u.Path, "/")
		nodes = append(nodes, u)
		ip := net.ParseIP(u.Hostname())
		local = local && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
	}
	secured := &tls.Config{}
	if err := c.TLS.Secure(secured); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = Timeout
	}
	h := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured, ForceAttemptHTTP2: true,
		DialContext:         (&net.Dialer{Timeout: min(c.Timeout, 10*time.Second), KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: min(c.Timeout, 10*time.Second), ResponseHeaderTimeout: c.Timeout,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		// All requests share one HTTP/2 connection, which a failed request doesn't close. So pings check it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: c.Timeout, PingTimeout: c.Timeout},
	}
	options := []elastictransport.Option{
		elastictransport.WithURLs(nodes...), elastictransport.WithTransport(h),
		elastictransport.WithUserAgent("replicator"),
	}
	if len(nodes) == 1 {
		options = append(options, elastictransport.WithDisableRetry())
	} else {
		options = append(options, elastictransport.WithRetry(len(nodes)-1, http.StatusBadGateway))
	}
	if !local { // on loopback, compression only costs time
		options = append(options, elastictransport.WithCompression(1))
	}
	switch {
	case c.APIKey != "":
		options = append(options, elastictransport.WithAPIKey(c.APIKey))
	case c.Username != "":
		options = append(options, elastictransport.WithBasicAuth(c.Username, c.Password))
	}
	e, err := elastictransport.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return &client{elastic: e, http: h, limit: 2 * c.Timeout, held: min(c.Timeout/3, 10*time.Second)}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call sends a request, and decodes the answer into `result`, a pointer. If `result` is nil, call ignores the answer.
func (c *client) call(ctx context.Context, request esapi.Request, result any) error {
	answer, err := c.send(ctx, request)
	if err != nil || result == nil {
		return err
	}
	return decode(answer, result)
}

// refresh makes searches see everything that the indexes hold. A connection that died while idle says nothing about the
// cluster, so the request is then sent once more over another connection, within the same time limit.
func (c *client) refresh(ctx context.Context, indexes []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var idle atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(g httptrace.GotConnInfo) { idle.Store(g.Reused) },
	})
	request := esapi.IndicesRefreshRequest{Index: indexes}
	err := c.call(traced, request, nil)
	if err == nil || asFailure(err) != nil || !idle.Load() {
		return err
	}
	return c.call(ctx, request, nil)
}

type object = map[string]any

// body encodes a request's body as JSON. It holds only the sink's own maps and texts, which always encode.
func body(of any) io.Reader {
	text, err := json.Marshal(of)
	if err != nil {
		panic("a request's body: " + err.Error())
	}
	return bytes.NewReader(text)
}

func decode(answer []byte, result any) error {
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("reading the cluster's answer: %w", err)
	}
	return nil
}

// send sends a request and returns the answer's body. If the answer reports a failure, the error says what to do, and
// is Fatal if an operator must act.
func (c *client) send(ctx context.Context, request esapi.Request) ([]byte, error) {
	return c.receive(ctx, request, 0)
}

var errTooMuch = errors.New("the answer is too large")

// receive sends a request and returns the answer's body, as `send` does. If the answer has more than `maxBytes` bytes
// (0: no limit), receive returns a part of it, and errTooMuch.
func (c *client) receive(ctx context.Context, request esapi.Request, maxBytes int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	res, err := c.hold(request).Do(ctx, c.elastic)
	if err != nil {
		return nil, c.lost(err)
	}
	defer res.Body.Close()
	if err := c.recognise(ctx, res); err != nil {
		return nil, err
	}
	from := io.Reader(res.Body)
	if maxBytes > 0 {
		from = io.LimitReader(from, maxBytes+1)
	}
	answer, err := io.ReadAll(from)
	if err != nil {
		return nil, c.lost(err)
	}
	if maxBytes > 0 && int64(len(answer)) > maxBytes {
		return answer, errTooMuch
	}
	if res.StatusCode >= 300 {
		return nil, refused(res.StatusCode, answer)
	}
	return answer, nil
}

// hold limits how long the cluster may wait before it answers. By default a write waits a minute for copies of its
// shard, and other requests wait 30 s for a master or for all nodes. The client would give up earlier, and the problem
// of one index would look like an unreachable cluster.
func (c *client) hold(request esapi.Request) esapi.Request {
	switch r := request.(type) {
	case esapi.BulkRequest:
		r.Timeout = c.held
		return r
	case esapi.DeleteRequest:
		r.Timeout = c.held
		return r
	case esapi.IndicesCreateRequest:
		r.MasterTimeout, r.Timeout = c.held, c.held
		return r
	case esapi.IndicesDeleteRequest:
		r.MasterTimeout, r.Timeout = c.held, c.held
		return r
	case esapi.IndicesPutMappingRequest:
		r.MasterTimeout, r.Timeout = c.held, c.held
		return r
	case esapi.IndicesUpdateAliasesRequest:
		r.MasterTimeout, r.Timeout = c.held, c.held
		return r
	case esapi.IndicesSimulateTemplateRequest:
		r.MasterTimeout = c.held
		return r
	case esapi.IndicesGetRequest:
		r.MasterTimeout = c.held
		return r
	case esapi.IndicesGetSettingsRequest:
		r.MasterTimeout = c.held
		return r
	case esapi.ClusterHealthRequest:
		r.MasterTimeout = c.held
		return r
	}
	return request
}

// lost returns the error of a request without an answer. It closes the idle connections, because they probably died,
// too. The next answer may come from another product, so the client asks again whether it is OpenSearch.
func (c *client) lost(err error) error {
	c.doubted.Store(true)
	c.http.CloseIdleConnections()
	return unreachable(err)
}
