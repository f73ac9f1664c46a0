package elastic

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
	"replicator/internal/servers/servertest"
)

func TestAnAnswerThatStallsIsGivenUp(t *testing.T) {
	released := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{")) // the rest of the answer never comes
		_ = http.NewResponseController(w).Flush()
		<-released
	}))
	defer s.Close()
	defer close(released)
	c, err := newClient(Config{Addresses: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	c.limit = 100 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- c.call(t.Context(), esapi.InfoRequest{}, new(map[string]any)) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(10 * time.Minute):
		t.Error("the client still waits")
	}
}

// Requests have the program's user agent. The client sends no requests of its own: it neither discovers nodes nor
// checks the product.
func TestOnlyWhatIsAskedForIsSent(t *testing.T) {
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path)
		if agent := r.UserAgent(); agent != "replicator" {
			t.Errorf("%s: the user agent is %q", r.URL.Path, agent)
		}
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	c, err := newClient(Config{Addresses: []string{s.URL + "/behind/"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for range 2 {
		if err := c.call(t.Context(), esapi.IndicesGetRequest{Index: []string{"users"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"/behind/users", "/behind/users"}; !slices.Equal(seen, want) {
		t.Errorf("the cluster was asked %v, want %v", seen, want)
	}
}

func TestAServerThatIsNotElasticsearchIsFatalAtItsFirstAnswerAndAtAnyLaterOne(t *testing.T) {
	var product atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", product.Load().(string))
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	c, err := newClient(Config{Addresses: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, name := range []string{"", "Elasticsearch", "OpenSearch"} {
		product.Store(name)
		err := c.call(t.Context(), esapi.InfoRequest{}, nil)
		if genuine := name == "Elasticsearch"; genuine != (err == nil) || genuine == replicator.IsFatal(err) {
			t.Errorf("of a server that calls itself %q the client says %v", name, err)
		}
	}
}

// If a connection dies while it is idle, the refresh is sent again over another connection. If a new connection fails,
// the refresh fails, because then the cluster can't be reached.
func TestARefreshOverAConnectionThatWentSilentIsSentAgain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	link := servertest.NewLink(t, strings.TrimPrefix(s.URL, "http://"))
	c, err := newClient(Config{Addresses: []string{"http://" + link.Address()}, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for range 2 {
		if err := c.refresh(t.Context(), []string{"users"}); err != nil {
			t.Fatal(err)
		}
		link.Cut()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	link.Lead(silent.Addr().String())
	if err := c.refresh(t.Context(), []string{"users"}); err == nil {
		t.Error("a cluster that is silent from the start was refreshed")
	}
}

// After a lost connection, another server may answer at the same address. So the client must ask again.
func TestOpenSearchIsAskedWhoItIsOnceAndAgainAfterItWasLost(t *testing.T) {
	var asked atomic.Int64
	var product atomic.Value
	product.Store("opensearch")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			asked.Add(1)
		}
		_, _ = w.Write([]byte(`{"version": {"distribution": "` + product.Load().(string) + `"}}`))
	}))
	defer s.Close()
	c, err := newClient(Config{Addresses: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	request := esapi.ClusterHealthRequest{}
	for range 3 {
		if err := c.call(t.Context(), request, nil); err != nil {
			t.Fatal(err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("it was asked %d times", asked.Load())
	}
	product.Store("another")
	_ = c.lost(errors.New("cut"))
	if err := c.call(t.Context(), request, nil); !replicator.IsFatal(err) {
		t.Errorf("of a stranger in its place the client says %v", err)
	}
}
