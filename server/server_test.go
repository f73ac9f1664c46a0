package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"replicator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a Controller whose answers a test sets.
type program struct {
	mu     sync.Mutex
	views  []replicator.ViewStatus
	err    error
	called []string

	waiting chan struct{} // receives a value from each Wait that blocks
}

func (p *program) note(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called = append(p.called, fmt.Sprintf(format, args...))
	return p.err
}

func (p *program) Status(context.Context) ([]replicator.ViewStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.views), p.err
}

// show sets the status that the program returns.
func (p *program) show(views ...replicator.ViewStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.views = views
}

// fails makes the program return err from now on. It locks, because the watch goroutine may be calling the program.
func (p *program) fails(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// did returns the requests to the program since the last call of did.
func (p *program) did() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Join(p.called, ", ")
	p.called = nil
	return all
}

func (p *program) Wait(ctx context.Context, fence Fence, views []string) error {
	if err := p.note("wait %s %s %v", fence.At, fence.Source, views); err != nil || p.waiting == nil {
		return err
	}
	p.waiting <- struct{}{}
	<-ctx.Done()
	return fmt.Errorf("view v does not include %s yet: %w", fence.At, context.Cause(ctx))
}

func (p *program) Retry(_ context.Context, which Selection) (tried, left int, err error) {
	return 3, 1, p.note("retry %+v", which)
}

func (p *program) Drop(_ context.Context, which Selection) (int, error) {
	return 2, p.note("drop %+v", which)
}

// LetterGroups returns one group for each view that has dead letters.
func (p *program) LetterGroups(ctx context.Context, view string) (groups []LetterGroup, err error) {
	views, err := p.Status(ctx)
	for _, v := range views {
		if v.DeadLetters > 0 && (view == "" || view == v.View) {
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			groups = append(groups, LetterGroup{Group: "group-" + v.View, View: v.View, Table: "cells",
				Reason:  `field email: the text has 300 characters, "email" <VARCHAR(255)> holds 255`,
				Letters: v.DeadLetters, First: at, Last: at.Add(time.Hour), Example: "letter-" + v.View,
				Keys: []string{"c7@shop.test"}})
		}
	}
	return groups, err
}

// Letter returns a dead letter of 64 MiB.
func (p *program) Letter(_ context.Context, id string) (replicator.DeadLetter, error) {
	if !strings.HasPrefix(id, "letter-") {
		return replicator.DeadLetter{}, fmt.Errorf("dead letter %q: %w", id, ErrUnknown)
	}
	return replicator.DeadLetter{ID: id, View: id[7:], Cell: replicator.Cell{Table: "cells", Column: "BASE"},
		Version: 7, Raw: []byte(`{"<b>email</b>":"` + strings.Repeat("ö", 32<<20) + `"}`)}, p.note("letter %s", id)
}

func (p *program) Look(_ context.Context, view, source string, cells []replicator.Cell) error {
	return p.note("look %s %s %+v", view, source, cells)
}

func (p *program) Rebuild(_ context.Context, view string, how Rebuild) error {
	return p.note("rebuild %s %+v", view, how)
}
func (p *program) Pause(_ context.Context, view string) error  { return p.note("pause %s", view) }
func (p *program) Resume(_ context.Context, view string) error { return p.note("resume %s", view) }

func lag(seconds float64) *float64 { return &seconds }

func viewOf(name, state string, lag *float64) replicator.ViewStatus {
	return replicator.ViewStatus{View: name, Sink: "main", Kind: "index", State: state, LagSeconds: lag,
		Position: "binlog.000002:157"}
}

func serve(t *testing.T, address, token string, c Controller, m *Metrics) (*Server, Client) {
	t.Helper()
	if m == nil {
		m = NewMetrics()
	}
	s, err := Listen(address, token, c, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, Client{Address: s.Addr(), Token: token}
}

// ask sends a request and returns the answer's status, headers and text. The headers may contain "Host".
func ask(t *testing.T, s *Server, method, path, body string, headers map[string]string) (int, http.Header, string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr())
	r, err := http.NewRequest(method, "http://127.0.0.1:"+port+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	r.Host = headers["Host"]
	answered, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answered.Body.Close()
	text, err := io.ReadAll(answered.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered.StatusCode, answered.Header, string(text)
}

func TestStatusIsAnObjectWithAListOfViews(t *testing.T) {
	p := &program{}
	s, c := serve(t, "127.0.0.1:0", "", p, nil)
	if _, _, text := ask(t, s, "GET", "/api/v1/status", "", nil); !strings.Contains(text, `"views":[]`) {
		t.Errorf("without views: %s", text)
	}
	p.views = []replicator.ViewStatus{viewOf("v", replicator.StateRunning, lag(1.5))}
	_, _, text := ask(t, s, "GET", "/api/v1/status", "", nil)
	var a struct{ Views []map[string]any }
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"view", "sink", "kind", "state", "position", "lag_seconds", "rate",
		"dead_letters", "error"} {
		if _, has := a.Views[0][key]; !has {
			t.Errorf("no %s in %s", key, text)
		}
	}
	views, err := c.Status(t.Context())
	if err != nil || len(views) != 1 || *views[0].LagSeconds != 1.5 {
		t.Errorf("client got %+v, %v", views, err)
	}
}

func TestWaitAnswersWhenIncludedAndWhenNot(t *testing.T) {
	p := &program{}
	s, c := serve(t, "127.0.0.1:0", "", p, nil)
	if err := c.Wait(t.Context(), Fence{At: "binlog.000002:4", Source: "east"}, []string{"a", "b"},
		time.Second); err != nil {
		t.Error(err)
	}
	if err := c.Wait(t.Context(), Fence{At: "0-1-2"}, nil, time.Second); err != nil {
		t.Error(err)
	}
	if got := p.did(); got != "wait binlog.000002:4 east [a b], wait 0-1-2  []" {
		t.Errorf("called %s", got)
	}
	if code, _, text := ask(t, s, "GET", "/api/v1/wait?gtid=a&timeout=2.5", "", nil); code != 200 {
		t.Errorf("seconds without a unit: %d %s", code, text)
	}
	for query, want := range map[string]string{"": "either gtid=SET or pos=FILE:POS", "?gtid=a&pos=b": "either",
		"?gtid=a&veiw=v":    "veiw",
		"?gtid=a&timeout=x": "timeout: expected", "?gtid=a&timeout=-1s": "timeout", "?gtid=a&timeout=1000h": "timeout"} {
		if code, _, text := ask(t, s, "GET", "/api/v1/wait"+query, "", nil); code != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	p.waiting = make(chan struct{}, 9)
	if err := c.Wait(t.Context(), Fence{At: "0-1-9"}, nil, 20*time.Millisecond); !errors.Is(err,
		context.DeadlineExceeded) || !strings.Contains(err.Error(), "don't include the position after waiting 20ms") {
		t.Errorf("error is %v", err)
	}
	for want, err := range map[int]error{404: fmt.Errorf("view %q: %w", "x", ErrUnknown), 400: ErrInvalid,
		409: replicator.ErrNotServing, 500: errors.New("other")} {
		p.fails(err)
		if code, _, text := ask(t, s, "GET", "/api/v1/wait?gtid=a", "", nil); code != want ||
			!strings.Contains(text, strings.Split(err.Error(), `"`)[0]) {
			t.Errorf("%v: %d %s", err, code, text)
		}
	}
}

func TestClosingEndsRequestsThatWait(t *testing.T) {
	p := &program{waiting: make(chan struct{})}
	s, err := Listen("127.0.0.1:0", "", p, NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- Client{Address: s.Addr()}.Wait(context.Background(), Fence{At: "0-1-9"}, nil, time.Minute)
	}()
	<-p.waiting
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	var refused *AnswerError
	if err := <-done; !errors.As(err, &refused) || refused.Code != 503 {
		t.Errorf("error is %v", err)
	}
}

func TestChangesReachTheProgram(t *testing.T) {
	p := &program{}
	_, c := serve(t, "127.0.0.1:0", "s3cret", p, nil)
	tried, left, err := c.Retry(t.Context(), Selection{View: "v"})
	if tried != 3 || left != 1 || err != nil {
		t.Errorf("retry: %d, %d, %v", tried, left, err)
	}
	n, err := c.Drop(t.Context(), Selection{IDs: []string{"a", "b"}})
	if n != 2 || err != nil {
		t.Errorf("drop: %d, %v", n, err)
	}
	if err := errors.Join(c.Rebuild(t.Context(), "v", Rebuild{From: "7", InPlace: true}), c.Pause(t.Context(), "a/b c"),
		c.Resume(t.Context(), "v")); err != nil {
		t.Error(err)
	}
	want := "retry {IDs:[] Group: View:v All:false}, drop {IDs:[a b] Group: View: All:false}, rebuild v {From:7 InPlace:true}, pause a/b c, resume v"
	if got := p.did(); got != want {
		t.Errorf("called %s", got)
	}
	p.fails(fmt.Errorf("view v: %w", ErrUnknown))
	if err := c.Pause(t.Context(), "v"); !errors.Is(err, ErrUnknown) {
		t.Errorf("error is %v", err)
	}
}

func TestSelectionIsNeverAllByMistake(t *testing.T) {
	p := &program{}
	s, _ := serve(t, "127.0.0.1:0", "", p, nil)
	for _, body := range []string{"", "{}", `{"ids":[]}`, `{"all":false}`, `{"view":"v","all":true}`,
		`{"view":"v","ids":["a"]}`, `{"al":true}`, `[1]`, `{"all":true} {}`} {
		if code, _, text := ask(t, s, "POST", "/api/v1/deadletters/drop", body, nil); code != 400 {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	if called := p.did(); called != "" {
		t.Errorf("called %s", called)
	}
}

func TestWhatTheProgramCanNotDoIsSaid(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", "", &program{}, nil)
	if code, _, _ := ask(t, s, "GET", "/api/v1/views/v/pause", "", nil); code != 405 {
		t.Errorf("GET: %d", code)
	}
	if code, _, _ := ask(t, s, "GET", "/nothing", "", nil); code != 404 {
		t.Errorf("nothing: %d", code)
	}
}

func TestWhoMayChangeSomething(t *testing.T) {
	const token = "s3cret"
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	with := func(h map[string]string, name, value string) map[string]string { h[name] = value; return h }
	for _, c := range []struct {
		name, listen, token string
		headers             map[string]string
		want                int
	}{
		{"loopback", "127.0.0.1:0", "", nil, 202},
		{"loopback by its name", "127.0.0.1:0", "", map[string]string{"Host": "localhost:9190"}, 202},
		{"loopback by a foreign name", "127.0.0.1:0", "", map[string]string{"Host": "evil.example"}, 403},
		{"from a page of another site", "127.0.0.1:0", "", map[string]string{"Origin": "https://evil.example"}, 403},
		{"from a page without an origin", "127.0.0.1:0", "", map[string]string{"Origin": "null"}, 403},
		{"as browsers mark it", "127.0.0.1:0", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"token missing", "127.0.0.1:0", token, nil, 401},
		{"token wrong", "127.0.0.1:0", token, bearer("guess"), 401},
		{"other scheme", "127.0.0.1:0", token, map[string]string{"Authorization": "Basic " + token}, 401},
		{"token right", "127.0.0.1:0", token, bearer(token), 202},
		{"token right, from a page of another site", "127.0.0.1:0", token,
			with(bearer(token), "Origin", "https://evil.example"), 403},
		{"everywhere without token", "0.0.0.0:0", "", nil, 403},
		{"everywhere with token", "0.0.0.0:0", token, bearer(token), 202},
		{"everywhere by any name", "0.0.0.0:0", token, with(bearer(token), "Host", "replicator.internal"), 202},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &program{}
			s, _ := serve(t, c.listen, c.token, p, nil)
			code, _, text := ask(t, s, "POST", "/api/v1/views/v/rebuild", "{}", c.headers)
			if code != c.want {
				t.Errorf("%d %s", code, text)
			}
			if called := p.did(); (called != "") != (c.want == 202) {
				t.Errorf("called %s", called)
			}
			if strings.Contains(text, token) {
				t.Errorf("shows the token: %s", text)
			}
		})
	}
}

func TestReadingIsOpenButNotToForeignNames(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", "s3cret", &program{}, nil)
	for _, path := range []string{"/", "/deadletters", "/api/v1/status", "/api/v1/deadletters", "/metrics", "/healthz", "/readyz"} {
		if code, _, _ := ask(t, s, "GET", path, "", nil); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
		if code, _, _ := ask(t, s, "GET", path, "", map[string]string{"Host": "evil.example:80"}); code != 403 {
			t.Errorf("%s by a foreign name: %d", path, code)
		}
	}
}

func TestValuesOfRowsNeedTheToken(t *testing.T) {
	s, c := serve(t, "127.0.0.1:0", "s3cret", &program{}, nil)
	if code, _, _ := ask(t, s, "GET", "/api/v1/deadletters/letter-v", "", nil); code != 401 {
		t.Errorf("without the token: %d", code)
	}
	headers := map[string]string{"Authorization": "Bearer " + c.Token}
	code, _, text := ask(t, s, "GET", "/api/v1/deadletters/letter-v", "", headers)
	var a Letter
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != 200 {
		t.Fatalf("%d %v", code, err)
	}
	if a.Bytes != 64<<20+19 || len(a.Raw) > mostRaw || !strings.HasSuffix(a.Raw, "ö") {
		t.Errorf("%d bytes, of which %d are shown", a.Bytes, len(a.Raw))
	}
	if code, _, _ = ask(t, s, "GET", "/api/v1/deadletters/other", "", headers); code != 404 {
		t.Errorf("one that is not there: %d", code)
	}
}

func TestBodiesAndHeadersAreBounded(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", "", &program{}, nil)
	if code, _, _ := ask(t, s, "POST", "/api/v1/deadletters/drop",
		`{"view":"`+strings.Repeat("x", 2<<20)+`"}`, nil); code != 413 {
		t.Errorf("a long body: %d", code)
	}
	if code, _, _ := ask(t, s, "GET", "/healthz", "", map[string]string{"X-Long": strings.Repeat("x",
		64<<10)}); code != 431 {
		t.Errorf("a long header: %d", code)
	}
}

func TestPageShowsEveryViewAndNoMarkupOfOthers(t *testing.T) {
	broken := viewOf("index_users", replicator.StateFailed, nil)
	users := viewOf("users", replicator.StateRunning, lag(0.25))
	broken.Error, broken.DeadLetters = `no table <script>alert("x")</script>`, 3
	s, _ := serve(t, "127.0.0.1:0", "", &program{views: []replicator.ViewStatus{users, broken}}, nil)
	code, headers, text := ask(t, s, "GET", "/", "", nil)
	for _, want := range []string{"index_users", "users", "running", "failed", "0.2 s", "binlog.000002:157",
		"1 of 2 not ready", `http-equiv="refresh"`, "no table &lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if code != 200 || strings.Contains(text, "<script>alert") ||
		!strings.HasPrefix(headers.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v\n%s", code, headers, text)
	}
}

func TestPageShowsAnErrorOfSeveralViewsOnceAndLettersInAmberWithTheirKeys(t *testing.T) {
	var views []replicator.ViewStatus
	for _, name := range []string{"orders", "items", "carts"} {
		v := viewOf(name, replicator.StateRetrying, lag(3))
		v.Error = "sink search: connection refused"
		views = append(views, v)
	}
	lacking := viewOf("users", replicator.StateRunning, lag(0.1))
	lacking.DeadLetters = 1
	p := &program{views: append(views, lacking)}
	s, _ := serve(t, "127.0.0.1:0", "", p, nil)
	_, _, text := ask(t, s, "GET", "/", "", nil)
	if n := strings.Count(text, "connection refused"); n != 1 || !strings.Contains(text, "orders, items, carts:") {
		t.Errorf("the error of three views is shown %d times", n)
	}
	for _, want := range []string{`class="state running lacking"`, "1 dead letter<"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if _, _, text = ask(t, s, "GET", "/deadletters", "", nil); !strings.Contains(text, "<code>c7@shop.test</code>") {
		t.Errorf("the letters' key is not shown:\n%s", text)
	}
	s, _ = serve(t, "127.0.0.1:0", "s3cret", p, nil)
	for _, path := range []string{"/deadletters", "/api/v1/deadletters"} {
		if _, _, text := ask(t, s, "GET", path, "", nil); strings.Contains(text, "c7@") {
			t.Errorf("%s shows a value of a row without the token", path)
		}
	}
}

func TestClientTellsWhatIsWrong(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	for _, c := range []Client{{Address: address}, {}} {
		if _, err := c.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%+v: error is %v", c, err)
		}
	}
	// Another program listens on the port.
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := other.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			fmt.Fprint(conn, "HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n")
		}
	})
	_, err = Client{Address: other.Addr().String(), Token: "s3cret"}.Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is not replicator") {
		t.Errorf("error is %v", err)
	}
	other.Close()
	wg.Wait()
	s, c := serve(t, "0.0.0.0:0", "s3cret", &program{}, nil)
	if _, err := c.Drop(t.Context(), Selection{All: true}); err != nil {
		t.Errorf("through an address of all: %v", err)
	}
	c.Token = "wrong"
	if _, err := c.Drop(t.Context(), Selection{All: true}); err == nil || strings.Contains(err.Error(), "wrong\"") ||
		!strings.Contains(err.Error(), "token") {
		t.Errorf("error is %v", err)
	}
	if _, err := Listen(s.Addr(), "", &program{}, NewMetrics()); err == nil ||
		!strings.Contains(err.Error(), "http.listen") {
		t.Errorf("error is %v", err)
	}
}
