package elastic_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"replicator"
	"replicator/sinks/elastic"
)

// forget writes a mark, and makes a target forget the cells that are gone below a horizon. It returns the number of
// forgotten cells.
func (b *bench) forget(target replicator.Target, mark, horizon int64) (forgotten int) {
	b.t.Helper()
	at := replicator.Standing{Position: replicator.Position{Order: mark, Token: "p"}}
	if err := target.Mark(b.t.Context(), at); err != nil {
		b.t.Fatal(err)
	}
	forgetter := target.(replicator.Forgetter)
	if err := forgetter.RaiseHorizon(b.t.Context(), horizon); err != nil {
		b.t.Fatal(err)
	}
	for after := ""; ; {
		found, next, err := forgetter.ForgetGone(b.t.Context(), after, 10)
		if err != nil {
			b.t.Fatal(err)
		}
		forgotten += found.Forgotten
		if after = next; after == "" {
			return forgotten
		}
	}
}

// documents returns the sources of all documents in the view's index, except the registry, by id.
func (b *bench) documents() map[string]json.RawMessage {
	b.t.Helper()
	index := b.indexes(indexOf(b.view))[0]
	all := b.search(index)
	delete(all, "replicator:marks")
	return all
}

func TestNothingIsLeftOfWhatIsForgotten(t *testing.T) {
	b := newBench(t, "", "users", "profile")
	alone, beside, lives := cellOf(t, "users", 1), cellOf(t, "users", 2), cellOf(t, "profile", 2)
	b.apply(op(alone, 5, "a", int64(1)), op(beside, 5, "b", int64(2)), op(lives, 5, "c", int64(3)))
	b.apply(reset(alone, replicator.NoVersion, 10), reset(beside, replicator.NoVersion, 10))
	if forgotten := b.forget(b.target, 100, 50); forgotten != 2 {
		t.Errorf("%d cells are forgotten", forgotten)
	}
	all := b.documents()
	if text := string(all["2"]); len(all) != 1 || !strings.Contains(text, "cell.profile") || strings.Contains(text, "cell.users") {
		t.Errorf("left are %s", all)
	}
	b.shows("2", `{"name":"c","n":3`)
	if a := b.apply(op(alone, 5, "a", int64(1))); len(a.Unknown) != 1 {
		t.Errorf("a change from below the horizon: %+v", a)
	}
}

// A create was judged when the cell was unknown, and then delayed in the network. Meanwhile the cell was written,
// deleted and forgotten. The create must fail.
func TestACreateThatWasHeldUpBringsNothingBack(t *testing.T) {
	b := newBench(t, "")
	held, let := make(chan struct{}), make(chan struct{})
	var holds atomic.Bool
	to, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_bulk" && holds.CompareAndSwap(true, false) {
			close(held)
			<-let
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	slow := newSinkOf(t, elastic.Config{Addresses: []string{proxy.URL}})
	defer slow.Close()
	target, err := slow.Open(t.Context(), "", []*replicator.View{b.view})
	if err != nil {
		t.Fatal(err)
	}
	holds.Store(true)
	cell := cellOf(t, "users", 1)
	var applied replicator.Applied
	ended := make(chan error, 1)
	go func() {
		var err error
		applied, err = target.Apply(t.Context(), []replicator.Op{op(cell, 5, "old", int64(1))})
		ended <- err
	}()
	<-held
	b.apply(op(cell, 5, "old", int64(1)))
	b.apply(reset(cell, replicator.NoVersion, 10))
	if forgotten := b.forget(b.target, 100, 50); forgotten != 1 {
		t.Errorf("%d cells are forgotten", forgotten)
	}
	close(let)
	if err := <-ended; err != nil || len(applied.Unknown) != 1 {
		t.Errorf("the change that was held up: %+v, %v", applied, err)
	}
	if all := b.documents(); len(all) != 0 {
		t.Errorf("left are %s", all)
	}
}
