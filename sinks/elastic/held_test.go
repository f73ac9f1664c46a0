package elastic_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// An index that needs more active copies than it has (index.write.wait_for_active_shards) accepts no writes. Only its
// view waits, with Elasticsearch's own error.
func TestAnIndexThatLacksCopiesStopsItsViewAlone(t *testing.T) {
	p := newPair(t)
	sink := newSinkOf(t, elastic.Config{Addresses: []string{p.url}, Views: p.views, Timeout: 6 * time.Second})
	defer sink.Close()
	open := func(views ...*replicator.View) replicator.Target {
		t.Helper()
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	target := open(p.views...)
	if _, err := target.Apply(t.Context(), p.both(1, "first")); err != nil {
		t.Fatal(err)
	}
	demand := func(copies string) { // the cluster has no node for the second copy
		p.do("PUT", "/"+indexOf(p.other)+"-r1/_settings",
			`{"index.number_of_replicas": 1, "index.write.wait_for_active_shards": `+copies+`}`)
	}
	demand("2")
	at := replicator.Standing{Position: replicator.Position{Order: 2, Token: "t"}}
	applied, applying := target.Apply(t.Context(), p.both(2, "second"))
	if len(applied.Rejected) > 0 {
		t.Errorf("dead letters: %+v", applied.Rejected)
	}
	for doing, err := range map[string]error{"Apply": applying, "Mark": target.Mark(t.Context(), at)} {
		if err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "unavailable_shards_exception") ||
			!strings.Contains(err.Error(), "active copies") || strings.Contains(err.Error(), "source[") {
			t.Errorf("%s says %v", doing, err)
		}
		sinktest.Refuses(t, err, p.views, p.other.Name)
	}
	if found := p.search(indexOf(p.well)); !strings.Contains(string(found["1"]), "second") {
		t.Errorf("the other view shows %s", found)
	}
	alone := open(p.well)
	if _, err := alone.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 2), 1, "alone")}); err != nil {
		t.Error(err)
	}
	if err := alone.Mark(t.Context(), at); err != nil {
		t.Error(err)
	}
	demand("null")
	target = open(p.views...)
	if a, err := target.Apply(t.Context(), p.both(3, "third")); err != nil || len(a.Stale)+len(a.Rejected) > 0 {
		t.Errorf("once it demands no more: %+v, %v", a, err)
	}
	if err := target.Mark(t.Context(), at); err != nil {
		t.Error(err)
	}
}

// asked records the requests that a proxy forwards to a cluster.
type asked struct {
	mu   sync.Mutex
	list []*http.Request
}

func (a *asked) before(t *testing.T, cluster string) (proxy string) {
	t.Helper()
	to, err := url.Parse(cluster)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.list = append(a.list, r.Clone(t.Context()))
		a.mu.Unlock()
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	return s.URL
}

// Every request that the cluster may delay must tell it to answer before the client gives up.
func TestNoRequestIsHeldLongerThanItIsWaitedFor(t *testing.T) {
	const timeout = 12 * time.Second
	p := newPair(t)
	var a asked
	sink := newSinkOf(t, elastic.Config{Addresses: []string{a.before(t, p.url)}, Views: p.views, Timeout: timeout,
		SearchTime: time.Millisecond})
	v := p.well
	sink.Check(t.Context(), p.views)
	target, err := sink.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1, "a")}); err != nil {
		t.Fatal(err)
	}
	shadowing := elastic.Shadowing{Sink: sink}
	if _, err := sink.Open(t.Context(), "", []*replicator.View{shadowing.Shadow(v)}); err != nil {
		t.Fatal(err)
	}
	if err := shadowing.Swap(t.Context(), "", []*replicator.View{v}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Forget(t.Context(), v.Name); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil { // removes the index that was swapped out
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range a.list {
		path := strings.ReplaceAll(r.URL.Path, indexOf(v), "INDEX")
		var names []string
		switch last := path[strings.LastIndex(path, "/")+1:]; {
		case last == "_bulk", strings.Contains(path, "/_doc/"):
			names = []string{"timeout"}
		case strings.HasPrefix(last, "_simulate"), last == "health", r.Method == http.MethodGet && path != "/" &&
			!strings.HasPrefix(path, "/_nodes"):
			names = []string{"master_timeout"}
		case r.Method == http.MethodPut, r.Method == http.MethodDelete, last == "_aliases":
			names = []string{"timeout", "master_timeout"}
		}
		seen[r.Method+" "+path] = true
		total := time.Duration(0)
		for _, name := range names {
			held, err := time.ParseDuration(r.URL.Query().Get(name))
			if err != nil {
				t.Errorf("%s %s has no %s: %v", r.Method, path, name, r.URL.Query())
			}
			total += held
		}
		if total >= timeout {
			t.Errorf("%s %s may be held for %v", r.Method, path, total)
		}
	}
	for _, want := range []string{"PUT /INDEX-r1", "DELETE /INDEX-r1", "POST /_aliases", "PUT /INDEX-r2/_mapping",
		"DELETE /INDEX-r2/_doc/replicator:marks"} {
		if !seen[want] {
			t.Errorf("there was no %s of %v", want, seen)
		}
	}
}
