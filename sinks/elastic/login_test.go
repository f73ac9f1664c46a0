package elastic_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
)

// guarded is a proxy that makes a cluster look secured: it uses HTTPS and requires an Authorization header.
type guarded struct {
	*httptest.Server
	url    string
	caCert string
	packed atomic.Int64 // number of requests with a compressed body
}

func guard(t *testing.T, word string) *guarded {
	t.Helper()
	target, err := url.Parse(servertest.Elasticsearch(t))
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{caCert: filepath.Join(t.TempDir(), "ca.pem")}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}
	g.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Authorization"), word) { // the case of the scheme's name doesn't matter
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error": {"type": "security_exception", "reason": "who are you?"}, "status": 401}`))
			return
		}
		if r.Header.Get("Content-Encoding") == "gzip" {
			g.packed.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { g.Close(); transport.CloseIdleConnections() })
	// The certificate is for example.com. The client does not recognize this name of the loopback address, so it
	// compresses its requests.
	g.url = strings.Replace(g.URL, "127.0.0.1", "LOCALHOST", 1)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
	if err := os.WriteFile(g.caCert, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestASecuredClusterIsReachedByLoginAndCertificate(t *testing.T) {
	const basic, key = "Basic cmVwbGljYXRvcjpnZWhlaW0=", "ApiKey dGhlLWlkOnRoZS1rZXk="
	for name, c := range map[string]struct {
		word   string
		config elastic.Config
		fails  string // a part of the error; "": no error
		fatal  bool
		fix    string // a part of the advice of check
	}{
		"user and password": {basic, elastic.Config{Username: "replicator", Password: "geheim"}, "", false, ""},
		"an API key":        {key, elastic.Config{APIKey: "dGhlLWlkOnRoZS1rZXk="}, "", false, ""},
		"a wrong password": {basic, elastic.Config{Username: "replicator", Password: "geraten"},
			"check the sink's username and password", true, "correct username"},
		"no login": {key, elastic.Config{}, "api_key", true, "correct username"},
		"an unknown authority": {basic, elastic.Config{Username: "replicator", Password: "geheim",
			TLS: config.TLS{CACert: "none"}}, "certificate", false, "correct ca_cert"},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, c.word)
			config := c.config
			config.Name, config.Addresses, config.Tables = "search", []string{g.url}, tables
			if config.TLS.CACert == "" {
				config.TLS.CACert = g.caCert
			} else {
				config.TLS.CACert = ""
			}
			config.TLS.ServerName = "example.com"
			sink, err := elastic.New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
			plain := newCluster(t, servertest.Elasticsearch(t))
			t.Cleanup(func() { plain.drop(indexOf(v)) })
			target, err := sink.Open(t.Context(), "", []*replicator.View{v})
			if c.fails == "" {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1,
					strings.Repeat("long ", 500))}); err != nil {
					t.Fatal(err)
				}
				if got := len(plain.search(indexOf(v))); got != 1 || g.packed.Load() == 0 {
					t.Errorf("%d documents are there, %d requests came compressed", got, g.packed.Load())
				}
				return
			}
			if f := sink.Check(t.Context(), nil); len(f) != 1 || !strings.Contains(f[0].Fix, c.fix) {
				t.Errorf("check says %+v", f)
			}
			if err == nil {
				err = errors.New("nothing")
			}
			if text := err.Error(); !strings.Contains(text, c.fails) || replicator.IsFatal(err) != c.fatal {
				t.Errorf("Open says %v, fatal: %v", err, replicator.IsFatal(err))
			}
			for _, secret := range []string{"geheim", "geraten", "dGhlLWlk"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows the password: %v", err)
				}
			}
		})
	}
}
