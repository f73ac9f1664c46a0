package elastic

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestAnAnswerThatStallsIsGivenUp(t *testing.T) {
	released := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{")) // and nothing more
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
	c.patience = 100 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- c.call(t.Context(), http.MethodGet, "/", nil, new(map[string]any)) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the client still waits")
	}
}
