package elastic

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v8"

	"replicator"
)

// client speaks to the cluster through Elastic's own client, without its wrappers of single APIs: bodies are rendered and
// answers read here (ADR 8). It tries another node where one can't be reached; all further retries are the pipeline's.
type client struct {
	elastic  *elasticsearch.BaseClient
	http     *http.Transport
	patience time.Duration // how long a request may take in all
}

// Timeout is how long an answer is waited for, until it begins, unless Config.Timeout says otherwise. Until all of it is read it may
// take twice as long.
const Timeout = 30 * time.Second

func newClient(c Config) (*client, error) {
	if len(c.Addresses) == 0 {
		return nil, errors.New("it has no addresses")
	}
	local := true
	for _, a := range c.Addresses {
		u, err := url.Parse(a)
		if err != nil || u.Host == "" {
			return nil, errors.New("an address is no URL; it has the form http://HOST:PORT or https://HOST:PORT")
		}
		ip := net.ParseIP(u.Hostname())
		local = local && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
	}
	config, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = Timeout
	}
	h := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		DialContext:         (&net.Dialer{Timeout: min(c.Timeout, 10*time.Second), KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: min(c.Timeout, 10*time.Second), ResponseHeaderTimeout: c.Timeout,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		// All requests share a connection of HTTP/2, which none of them ends: it is asked whether it lives.
		HTTP2: &http.HTTP2Config{SendPingTimeout: c.Timeout, PingTimeout: c.Timeout},
	}
	e, err := elasticsearch.NewBaseClient(elasticsearch.Config{
		Addresses: c.Addresses, Username: c.Username, Password: c.Password, APIKey: c.APIKey, Transport: h,
		Header:       http.Header{"User-Agent": {"replicator"}},
		Interceptors: []elastictransport.InterceptorFunc{genuine},
		DisableRetry: len(c.Addresses) == 1, MaxRetries: len(c.Addresses) - 1, RetryOnStatus: []int{http.StatusBadGateway},
		CompressRequestBody: !local, CompressRequestBodyLevel: 1, PoolCompressor: true, // on loopback it only costs
	})
	if err != nil {
		return nil, err
	}
	return &client{elastic: e, http: h, patience: 2 * c.Timeout}, nil
}

var errNotElasticsearch = errors.New("the server that answers is not Elasticsearch 7.14 or newer (it sends no header " +
	"X-Elastic-Product): check the sink's addresses")

// genuine refuses every successful answer that is not Elasticsearch's. The client itself looks at the first one only, and
// what it then says can't be told from a link that failed.
func genuine(next elastictransport.RoundTripFunc) elastictransport.RoundTripFunc {
	return func(req *http.Request) (*http.Response, error) {
		res, err := next(req)
		if err == nil && res.StatusCode < 300 && res.Header.Get("X-Elastic-Product") != "Elasticsearch" {
			res.Body.Close()
			return nil, errNotElasticsearch
		}
		return res, err
	}
}

func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CACert != "" {
		text, err := os.ReadFile(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("ca_cert: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_cert: %s holds no certificate in PEM form", t.CACert)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("cert and cert_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call sends a request with a JSON body, if there is one, and reads the answer into into, if it is given.
func (c *client) call(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := c.send(ctx, method, path, "application/json", text)
	if err != nil || into == nil {
		return err
	}
	return decode(answer, into)
}

func decode(answer []byte, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading Elasticsearch's answer: %w", err)
	}
	return nil
}

// send sends a request and returns the answer's body; an answer that is no success is an error, classified.
func (c *client) send(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	// A URL without scheme and host: the transport fills in those of a node.
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.elastic.Perform(req)
	if errors.Is(err, errNotElasticsearch) {
		return nil, replicator.Fatal(err)
	}
	if err != nil {
		return nil, c.lost(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, c.lost(err)
	}
	if res.StatusCode >= 300 {
		return nil, refused(res.StatusCode, answer)
	}
	return answer, nil
}

// lost is the error of a request without an answer. Where one connection went silent all others are as dead, and each would be
// waited for: those that are idle are given up.
func (c *client) lost(err error) error {
	c.http.CloseIdleConnections()
	return unreachable(err)
}
