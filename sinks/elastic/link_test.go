package elastic_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// brokenLink forwards requests, and sometimes loses a request or an answer, as if a side had crashed.
func brokenLink(t testing.TB, url string, broken *atomic.Bool) string {
	h := &http.Transport{}
	t.Cleanup(h.CloseIdleConnections)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lose := -1
		if broken.Load() {
			lose = rand.IntN(12)
		}
		if lose == 0 {
			panic(http.ErrAbortHandler)
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.RequestURI(), r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req.Header, req.ContentLength = r.Header, r.ContentLength
		res, err := h.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		if lose == 1 {
			panic(http.ErrAbortHandler)
		}
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body) // an incomplete answer also counts as a broken link
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// stubborn applies a batch again until it succeeds, as a restarted pipeline does.
type stubborn struct {
	watchedTarget
	broken *atomic.Bool
}

func (s stubborn) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	s.broken.Store(true)
	defer s.broken.Store(false)
	failures := 0
	for {
		applied, err := s.watchedTarget.Apply(ctx, ops)
		if err == nil && failures > 0 {
			applied.Stale = nil // we can't tell what a failed call has applied from what was stale before
		}
		if err == nil || failures > 100 || replicator.IsFatal(err) {
			return applied, err
		}
		failures++
	}
}

type stubbornSink struct {
	watched
	broken *atomic.Bool
}

func (s stubbornSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.watched.Open(ctx, source, views)
	if err != nil {
		return nil, err
	}
	return stubborn{t.(watchedTarget), s.broken}, nil
}

func TestConformanceOverALinkThatBreaks(t *testing.T) {
	url := servertest.Elasticsearch(t)
	c := newCluster(t, url)
	var broken atomic.Bool
	link := brokenLink(t, url, &broken)
	users, profile := replicator.Feed{Table: "cell", Column: "users"}, replicator.Feed{Table: "cell", Column: "profile"}
	name := servertest.Name()
	views := []*replicator.View{
		view(name+"-users", []replicator.Feed{users}, "email", "city"),
		view(name+"-people", []replicator.Feed{profile, users}, "email", "city"),
	}
	for _, v := range views {
		t.Cleanup(func() { c.drop(indexOf(v)) })
	}
	looks := &shown{cluster: c, views: views, ids: map[string]bool{}}
	sinktest.RunHistories(t, sinktest.Subject{
		Tables: tables[:1], Views: views, Histories: 5, Read: looks.read,
		New: func(t testing.TB) replicator.Sink {
			return stubbornSink{watched{elastic.Shadowing{Sink: newSink(t, link, views...)}, looks}, &broken}
		},
	})
}

// fake is a server with answers that the test defines, and the target of a view in it.
type fake struct {
	t      *testing.T
	bulk   func(w http.ResponseWriter, body string)
	sink   *elastic.Sink
	target replicator.Target
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/_bulk" && f.bulk != nil:
			f.bulk(w, string(body))
		case r.URL.Path == "/_bulk":
			succeed(w, string(body))
		case r.URL.Path == "/_mget":
			fmt.Fprint(w, `{"docs":[`+strings.TrimSuffix(strings.Repeat(`{"found":false},`,
				strings.Count(string(body), `"_id"`)), ",")+`]}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	t.Cleanup(s.Close)
	f.sink = newSink(t, s.URL)
	t.Cleanup(func() { f.sink.Close() })
	var err error
	if f.target, err = f.sink.Open(t.Context(), "", []*replicator.View{view("v",
		[]replicator.Feed{{Table: "cell", Column: "users"}}, "name")}); err != nil {
		t.Fatal(err)
	}
	return f
}

// succeed answers a bulk request as if every item was written.
func succeed(w http.ResponseWriter, body string) {
	items := strings.Repeat(`{"create":{"status":201,"_seq_no":1,"_primary_term":1}},`, strings.Count(body, "\n")/2)
	fmt.Fprint(w, `{"items":[`+strings.TrimSuffix(items, ",")+`]}`)
}

func refuse(status int, typ string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, _ string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"type":%q,"reason":"because"},"status":%d}`, typ, status)
	}
}

func TestErrorsOfRequestsAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		bulk  func(http.ResponseWriter, string)
		fatal bool
		says  string
	}{
		"who it is is not known": {refuse(401, "security_exception"), true, "username and password"},
		"it may not":             {refuse(403, "security_exception"), true, "privileges manage, read and write"},
		"it is blocked":          {refuse(403, "cluster_block_exception"), false, "blocks"},
		"no master":              {refuse(503, "master_not_discovered_exception"), false, "503"},
		"too busy":               {refuse(429, "es_rejected_execution_exception"), false, "429"},
		"a proxy's page": {func(w http.ResponseWriter,
			_ string) {
			w.WriteHeader(502)
			fmt.Fprint(w, "<html>")
		}, false, "502"},
		"no cluster manager": {refuse(503, "cluster_manager_not_discovered_exception"), false, "503"},
		"no Elasticsearch": {func(w http.ResponseWriter,
			_ string) {
			w.Header().Del("X-Elastic-Product")
			fmt.Fprint(w, "{}")
		}, true, "neither Elasticsearch"},
		"not JSON": {func(w http.ResponseWriter, _ string) { fmt.Fprint(w, "<html>") }, false, "reading"},
		"too few items": {func(w http.ResponseWriter,
			_ string) {
			fmt.Fprint(w, `{"items":[]}`)
		}, false, "0 items instead of 1"},
		"a link that breaks": {func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
			false, "can't be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.bulk = c.bulk
			_, err := f.target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1, "a")})
			if err == nil || replicator.IsFatal(err) != c.fatal || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Apply says %v", err)
			}
		})
	}
}

func TestItemsThatThereWasNoRoomForAreSentAgain(t *testing.T) {
	f := newFake(t)
	requests := 0
	f.bulk = func(w http.ResponseWriter, body string) {
		requests++
		if requests == 1 {
			fmt.Fprint(w, `{"items":[{"create":{"status":201,"_seq_no":1,"_primary_term":1}},`+
				`{"create":{"status":429,"error":{"type":"es_rejected_execution_exception"}}}]}`)
			return
		}
		if strings.Count(body, "\n") != 2 {
			t.Errorf("the second request is %s", body)
		}
		succeed(w, body)
	}
	a, err := f.target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1, "a"),
		op(cellOf(t, "users", 2), 1, "b")})
	if err != nil || len(a.Stale)+len(a.Rejected) > 0 || requests != 2 {
		t.Errorf("%d requests, %+v, %v", requests, a, err)
	}
}

func TestAMarkThatThereWasNoRoomForIsSentAgain(t *testing.T) {
	f := newFake(t)
	requests := 0
	f.bulk = func(w http.ResponseWriter, body string) {
		requests++
		if requests == 1 {
			fmt.Fprint(w, `{"items":[{"create":{"status":429,"error":{"type":"es_rejected_execution_exception"}}}]}`)
			return
		}
		succeed(w, body)
	}
	_, err := f.sink.Open(t.Context(), "", []*replicator.View{view("v", nil)})
	if err != nil || requests != 2 {
		t.Errorf("%d requests, %v", requests, err)
	}
	f.bulk = func(w http.ResponseWriter, _ string) {
		requests++
		fmt.Fprint(w, `{"items":[{"create":{"status":429,"error":{"type":"es_rejected_execution_exception"}}}]}`)
	}
	requests = 0
	_, err = f.sink.Open(t.Context(), "", []*replicator.View{view("v", nil)})
	if err == nil || replicator.IsFatal(err) || replicator.IsOfViews(err) || requests != 7 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

func TestARequestThatIsTooLargeIsSplitAndADocumentThatIsRejected(t *testing.T) {
	for name, refuse := range map[string]func(w http.ResponseWriter, size int){
		"http.max_content_length": func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
		"indexing_pressure.memory.limit": func(w http.ResponseWriter, size int) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"error": {"type": "es_rejected_execution_exception", "reason": "rejected execution of `+
				`coordinating operation [coordinating_and_primary_bytes=0, replica_bytes=0, all_bytes=0, `+
				`coordinating_operation_bytes=%d, max_coordinating_bytes=2000]"}}`, size)
		},
	} {
		t.Run(name, func(t *testing.T) { tooLarge(t, name, refuse) })
	}
}

func tooLarge(t *testing.T, limit string, refuse func(w http.ResponseWriter, size int)) {
	f := newFake(t)
	largest := 0
	f.bulk = func(w http.ResponseWriter, body string) {
		if len(body) > 2000 {
			refuse(w, len(body))
			return
		}
		largest = max(largest, len(body))
		succeed(w, body)
	}
	var ops []replicator.Op
	for n := range int64(40) {
		ops = append(ops, op(cellOf(t, "users", n), 1, strings.Repeat("x", 500)))
	}
	ops[7] = op(cellOf(t, "users", 7), 1, strings.Repeat("x", 5000))
	a, err := f.target.Apply(t.Context(), ops)
	if err != nil || len(a.Rejected) != 1 || a.Rejected[0].Op != 7 ||
		!strings.Contains(a.Rejected[0].Err.Error(), limit) {
		t.Errorf("%+v, %v", a, err)
	}
	if largest < 1000 {
		t.Errorf("the largest request that got through has %d bytes", largest)
	}
}

func TestAnUnreachableServerIsTemporary(t *testing.T) {
	sink := newSink(t, "http://127.0.0.1:1")
	defer sink.Close()
	_, err := sink.Marks(t.Context(), "")
	if err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "can't be reached") {
		t.Errorf("Marks says %v", err)
	}
	if f := sink.Check(t.Context(), nil); len(f) != 1 || f[0].Level != replicator.Fail || f[0].Fix == "" {
		t.Errorf("check says %+v", f)
	}
}

// An index's pipeline may drop a document. The item then succeeds, although nothing was written. So the view must stop,
// but no other view.
func TestADocumentThatAPipelineDropsIsNotTakenForWritten(t *testing.T) {
	f := newFake(t)
	f.bulk = func(w http.ResponseWriter, body string) {
		action, _, _ := strings.Cut(body, ":")
		fmt.Fprint(w, `{"items":[`+action+`:{"status":200}}]}`)
	}
	a, applying := f.target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1, "a")})
	if len(a.Rejected) > 0 {
		t.Errorf("dead letters: %+v", a.Rejected)
	}
	_, opening := f.sink.Open(t.Context(), "", []*replicator.View{view("v", nil)}) // which writes the view's mark
	for doing, err := range map[string]error{"Apply": applying, "Open": opening} {
		if !replicator.IsFatal(err) || !replicator.IsOfViews(err) ||
			!strings.Contains(err.Error(), "index.default_pipeline") {
			t.Errorf("%s says %v", doing, err)
		}
	}
}
