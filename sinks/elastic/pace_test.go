package elastic_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"replicator"
)

// meter counts the bytes of the answers that its proxy forwards.
type meter struct {
	mu             sync.Mutex
	total, largest int64
}

// take returns the bytes since the last call: of all answers, and of the largest answer.
func (m *meter) take() (total, largest int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total, largest = m.total, m.largest
	m.total, m.largest = 0, 0
	return total, largest
}

// metered opens the view again with a new sink, which knows nothing of the documents' sizes. It counts the bytes of the
// answers.
func (b *bench) metered() *meter {
	b.t.Helper()
	m := &meter{}
	h := &http.Transport{DisableCompression: true}
	b.t.Cleanup(h.CloseIdleConnections)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, b.url+r.URL.RequestURI(), r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req.Header, req.ContentLength = r.Header, r.ContentLength
		req.Header.Del("Accept-Encoding") // the client's memory use does not depend on compression
		res, err := h.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.StatusCode)
		n, _ := io.Copy(w, res.Body)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.total, m.largest = m.total+n, max(m.largest, n)
	}))
	b.t.Cleanup(s.Close)
	sink := newSink(b.t, s.URL)
	b.t.Cleanup(func() { _ = sink.Close() })
	target, err := sink.Open(b.t.Context(), "", []*replicator.View{b.view})
	if err != nil {
		b.t.Fatal(err)
	}
	b.target = target
	m.take()
	return m
}

const (
	large     = 500_000 // bytes of a document
	manyLarge = 60
)

// newLarge returns a bench with many large documents from the cells users.
func newLarge(t *testing.T, from ...string) *bench {
	t.Helper()
	b := newBench(t, `{"dynamic": false}`, from...)
	for n := range int64(manyLarge) {
		b.apply(op(cellOf(t, "users", n), 1, strings.Repeat("x", large), nil))
	}
	return b
}

// feeds are the cells of a view with one cell per document, and of a view that merges cells.
var feeds = map[string][]string{"one cell": {"users"}, "merged": {"profile", "users"}}

func TestAWalkAsksForNoMoreThanItNeeds(t *testing.T) {
	for name, from := range feeds {
		t.Run(name, func(t *testing.T) {
			b := newLarge(t, from...)
			b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/ghost", `{"name": "`+strings.Repeat("x", large)+`"}`)
			m := b.metered()
			walk := func(what string, want int, page func(after string) (int, string, error)) {
				t.Helper()
				got, after := 0, ""
				for {
					n, next, err := page(after)
					if err != nil {
						t.Fatal(what, err)
					}
					got += n
					if after = next; after == "" {
						break
					}
				}
				if total, _ := m.take(); got != want || total > large/4 {
					t.Errorf("%s: %d of %d found, %d bytes answered", what, got, want, total)
				}
			}
			walk("what is outdated", manyLarge, func(after string) (int, string, error) {
				cells, next, err := b.target.Outdated(t.Context(), 9, after, 500)
				return len(cells), next, err
			})
			walk("what is held", manyLarge, func(after string) (int, string, error) {
				cells, next, err := b.target.Held(t.Context(), 0, after, 500)
				return len(cells), next, err
			})
			if _, err := b.target.Compare(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1)}); err != nil {
				t.Fatal(err) // Compare reads a document, so the sink learns the size
			}
			m.take()
			walk("strays", 1, func(after string) (int, string, error) {
				strays, next, err := b.target.(replicator.Tidier).Strays(t.Context(), 0, after, 500)
				return len(strays), next, err
			})
		})
	}
}

// The sink can't know that a document is large if the op's own value is small or a delete.
func TestLargeDocumentsAreReadAFewAtATime(t *testing.T) {
	const most = 12 << 20
	for name, from := range feeds {
		t.Run(name, func(t *testing.T) {
			b := newLarge(t, from...)
			var shrunk, gone []replicator.Op
			for n := range int64(manyLarge) {
				shrunk = append(shrunk, op(cellOf(t, "users", n), 2, "small", nil))
				gone = append(gone, reset(cellOf(t, "users", n), replicator.NoVersion, 9))
			}
			m := b.metered()
			differences, err := b.target.Compare(t.Context(), shrunk)
			if _, largest := m.take(); err != nil || len(differences) != manyLarge || largest > most {
				t.Errorf("%d differences (%v), the largest answer has %d bytes", len(differences), err, largest)
			}
			m = b.metered()
			a := b.apply(gone...)
			if total, largest := m.take(); len(a.Stale)+len(a.Rejected) > 0 || largest > most {
				t.Errorf("%+v, the largest answer has %d bytes of %d", a, largest, total)
			}
			if left := len(b.search(indexOf(b.view))); left > 0 {
				t.Errorf("%d documents are left", left)
			}
		})
	}
}

// A stale re-read changes only the state, so the document is written again with its old fields. This must work even if
// the sink first read only the state.
func TestALargeDocumentIsWrittenAgainAsItIs(t *testing.T) {
	b := newBench(t, `{"dynamic": false}`)
	c := cellOf(t, "users", 1)
	b.apply(op(c, 50, strings.Repeat("x", large), exact()))
	b.metered()
	if _, err := b.target.Compare(t.Context(), []replicator.Op{op(c, 1)}); err != nil {
		t.Fatal(err) // Compare reads a document, so the sink learns the size
	}
	if a := b.apply(reset(c, 50, 40, "x", nil)); len(a.Stale) != 1 {
		t.Fatalf("Apply says %+v", a)
	}
	b.shows("1", `{"name":"`+strings.Repeat("x", large)+`","n":`+numbers)
	if a := b.apply(op(c, 40, "y", nil), op(cellOf(t, "users", 2), 1, "new", nil)); len(a.Stale) != 1 {
		t.Errorf("Apply says %+v", a)
	}
}
