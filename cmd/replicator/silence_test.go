package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// cut cuts a link. The returned function fails the test if the pipeline was interrupted more than twice since then,
// because it must not wait for one dead connection after another. The total time is not checked, because it depends on
// the machine.
func (p *process) cut(link *servertest.Link) (staysUp func()) {
	p.lab.t.Helper()
	interruptions := func() int { return strings.Count(p.Log(), "pipeline interrupted") }
	before := interruptions()
	link.Cut()
	return func() {
		p.lab.t.Helper()
		if n := interruptions() - before; n > 2 {
			p.lab.t.Errorf("it was interrupted %d times", n)
		}
	}
}

// sinkTimeout makes a sink's timeout short.
const sinkTimeout = "timeout = \"6s\"\n"

// A link to a sink goes silent within a transaction. The transaction survives at the server and keeps its locks until
// the program ends it over a new connection.
func TestAMySQLSinkWhoseLinkGoesSilentWithinATransaction(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	l := newLab(t, s)
	link := servertest.NewLink(t, s.Addr())
	l.env["SINK"] = l.dsn(link.Address(), l.database)
	l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), sinkTimeout,
		emailView, usersView, phoneView)
	l.put("a", 1, `{"email": "a@x.org"}`)
	p := l.running()
	l.caughtUp()

	held, err := l.db.BeginTx(t.Context(), nil) // this locks the row that the program is about to write
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.ExecContext(t.Context(), "SELECT * FROM users FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	l.put("a", 2, `{"email": "b@x.org"}`)
	l.executes("`users`")
	staysUp := p.cut(link)
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	l.put("b", 1, `{"email": "c@x.org"}`)
	if st := l.reaches("users", "retrying"); st.Error == "" || st.LagSeconds == nil {
		t.Errorf("while the link is silent: error %q, lag %v", st.Error, st.LagSeconds)
	}
	l.caughtUp()
	staysUp()
	l.expect(emails, "b@x.org a", "c@x.org b")
	if st := l.status("users"); st.State != "running" || st.Error != "" {
		t.Errorf("after it: %+v", st)
	}
	p.stop()
}

// Another session keeps a lock. The status names this reason and the lag grows, but the view doesn't fail.
func TestALockThatLastsShows(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(source, program, mainSink, sinkTimeout, emailView, usersView, phoneView)
	l.put("a", 1, `{"email": "a@x.org"}`)
	p := l.running()
	l.caughtUp()
	held, err := l.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.ExecContext(t.Context(), "SELECT * FROM users FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	l.put("a", 2, `{"email": "b@x.org"}`)
	st := l.reaches("users", "retrying")
	if !strings.Contains(st.Error, "1205") || !strings.Contains(st.Error, "another session holds the lock") {
		t.Errorf("the reason is %q", st.Error)
	}
	l.lagGrows("users")
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	l.caughtUp()
	l.expect(emails, "b@x.org a")
	p.stop()
}

// executes waits until the program is executing a statement that contains a text.
func (l *lab) executes(text string) {
	l.t.Helper()
	eventually(l.t, func() error {
		found, err := l.sessions("user = '" + l.user + "' AND info LIKE '%" + text + "%'")
		return cmp.Or(err, as(len(found) > 0, "a statement with "+text+" is under way"))
	})
}

// sessions returns the ids of the server's sessions that satisfy a condition. If another test's statement has bytes
// that are not valid text, the whole query fails (3854), so it is repeated.
func (l *lab) sessions(where string) (ids []string, err error) {
	return tryRows(l.t.Context(), l.db, "SELECT id FROM information_schema.processlist WHERE "+where)
}

// lagGrows waits until a view's lag in status and metrics is at least a second and has grown.
func (l *lab) lagGrows(view string) {
	l.t.Helper()
	first := 0.0
	eventually(l.t, func() error {
		st := l.status(view)
		if st.LagSeconds == nil {
			l.t.Fatalf("view %s is %s, and its lag is not known", view, st.State)
		}
		if first == 0 {
			first = *st.LagSeconds
		}
		if *st.LagSeconds < max(1, first+0.5) {
			return fmt.Errorf("the lag is %v s, and was %v s", *st.LagSeconds, first)
		}
		return nil
	})
	if _, text := l.get("/metrics"); !strings.Contains(text, `replicator_view_lag_seconds{`) ||
		!strings.Contains(text, `view="`+view+`"`) {
		l.t.Errorf("metrics show no lag of %s", view)
	}
}

const cacheView = `
[views.user_cache]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "user:{row_key}"
fields = ["email"]
`

const searchView = `
[views.user_search]
from = "cell.users"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["email"]
`

// A sink's link goes silent while it is idle, so all connections in the pool are dead. The program must not wait for
// them one after the other.
func TestALinkOfASinkThatGoesSilentWhileItIsIdle(t *testing.T) {
	t.Parallel()
	for name, sink := range map[string]func(t *testing.T, l *lab) (link *servertest.Link, view string,
		emails func() []string){
		"redis": func(t *testing.T, l *lab) (*servertest.Link, string, func() []string) {
			s := servertest.Own(t, servers.Redis7)
			link := servertest.NewLink(t, s.Addr())
			l.env["REDIS"] = "redis://" + link.Address() + "/0"
			l.configure(source, program, "[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n", sinkTimeout, cacheView)
			rdb := redisClient(t, s)
			return link, "user_cache", func() (all []string) {
				for _, key := range []string{"a", "b"} {
					if email := rdb.HGet(t.Context(), "user:"+keyText(key), "email").Val(); email != "" {
						all = append(all, email)
					}
				}
				return all
			}
		},
		"elasticsearch": func(t *testing.T, l *lab) (*servertest.Link, string, func() []string) {
			url := servertest.Elasticsearch(t)
			link := servertest.NewLink(t, strings.TrimPrefix(url, "http://"))
			index := servertest.Name()
			l.env["ELASTIC"], l.env["INDEX"] = "http://"+link.Address(), index
			l.configure(source, program, "[sinks.search]\ntype = \"elastic\"\naddresses = [\"${ELASTIC}\"]\n",
				sinkTimeout, searchView)
			return link, "user_search", func() []string { return documents(t, url, index) }
		},
		"mysql": func(t *testing.T, l *lab) (*servertest.Link, string, func() []string) {
			link := servertest.NewLink(t, l.server.Addr())
			l.env["SINK"] = l.dsn(link.Address(), l.database)
			l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), sinkTimeout, emailView)
			return link, "index_users_email", func() []string { return l.rows("SELECT email FROM index_users_email ORDER BY 1") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, servertest.MySQL(t))
			link, view, emails := sink(t, l)
			l.put("a", 1, `{"email": "a@x.org"}`)
			p := l.running()
			l.caughtUp()
			l.must("verify", view)
			staysUp := p.cut(link)
			l.put("b", 1, `{"email": "b@x.org"}`)
			if st := l.reaches(view, "retrying"); st.Error == "" || st.LagSeconds == nil {
				t.Errorf("while the link is silent: error %q, lag %v", st.Error, st.LagSeconds)
			}
			l.caughtUp()
			staysUp()
			eventually(t, func() error {
				if got := emails(); !slices.Equal(got, []string{"a@x.org", "b@x.org"}) {
					return fmt.Errorf("the view shows %v", got)
				}
				return nil
			})
			p.stop()
		})
	}
}

// documents returns the emails in an index.
func documents(t *testing.T, url, index string) (emails []string) {
	t.Helper()
	var found struct {
		Hits struct {
			Hits []struct {
				Source struct {
					Email string `json:"email"`
				} `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	askElastic(t, http.MethodPost, url+"/"+index+"/_refresh", nil)
	askElastic(t, http.MethodGet, url+"/"+index+"/_search", &found)
	for _, h := range found.Hits.Hits {
		emails = append(emails, h.Source.Email)
	}
	slices.Sort(emails)
	return emails
}

// askElastic sends a request. It decodes the answer into the argument into, unless that is nil.
func askElastic(t *testing.T, method, url string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if into != nil {
		err = json.NewDecoder(answer.Body).Decode(into)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v", method, url, answer.Status, err)
	}
}

// The sink's link goes silent during a repair. Within the sink's timeout, the repair must continue over another
// connection or return an error with the reason.
func TestVerifyRepairOverALinkThatGoesSilentEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	link := servertest.NewLink(t, l.server.Addr())
	l.env["SINK"] = l.dsn(link.Address(), l.database)
	l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), sinkTimeout,
		emailView, usersView, phoneView)
	for i := range 26 {
		l.put(string(rune('a'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org"}`, i))
	}
	l.must("run", "--until-caught-up")
	l.exec("DELETE FROM index_users_email")
	held, err := l.db.BeginTx(t.Context(), nil) // so that the repair is waiting when the link is cut
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.ExecContext(t.Context(), "SELECT * FROM replicator_locks FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	v := l.start("verify", "--repair", "index_users_email", "-c", l.file())
	l.executes("replicator_locks")
	link.Cut()
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	code := v.wait() // it must end before TCP gives up
	if said := v.Log(); code != 0 && (code != 1 || !strings.Contains(said, "no answer within the sink's timeout")) {
		t.Errorf("exit status %d\n%s%s", code, v.Output(), said)
	}
	l.must("verify", "--repair")
	l.must("verify")
}
