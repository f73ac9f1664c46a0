package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// resetViews are views of accounts in every sink, of the kinds that a replay of old changes could set back.
const resetViews = `
[checkpoint]
path = "state"
interval = "100ms"

[http]
listen = "${LISTEN}"

[tables.account]
key = "id"

[sinks.main]
type = "mysql"
dsn = "${DSN}"
` + redisSink + elasticSink + `
[views.sums]
from = "account"
sink = "main"
kind = "counter"
group = { grp = "$grp" }
sum = "$n"

[views.account_hash]
from = "account"
sink = "cache"
kind = "hash"
key = "account:{$id}"
fields = { n = "$n" }

[views.account_sum]
from = "account"
sink = "cache"
kind = "counter"
key = "sum:{$grp}"
sum = "$n"

[views.account_search]
from = "account"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = { n = "$n" }
`

// resetLab is a lab with resetViews. Its accounts had other values in the past.
type resetLab struct {
	*lab
	rdb *goredis.Client
	url string // the index's URL
}

func newResetLab(t *testing.T) *resetLab {
	url, index := servertest.Elasticsearch(t), servertest.Name()
	redis := servertest.Own(t, servers.Redis7)
	l := newBareLab(t, servertest.Own(t, servers.MySQL))
	l.env["REDIS"], l.env["ELASTIC"], l.env["INDEX"] = "redis://"+redis.Addr()+"/0", url, index
	rdb := redisClient(t, redis)
	l.exec("CREATE TABLE account (id INT PRIMARY KEY, grp VARCHAR(10) NOT NULL, n BIGINT NOT NULL)",
		"CREATE TABLE sums (grp VARCHAR(10) PRIMARY KEY, n BIGINT NOT NULL)")
	for i := range 40 {
		l.exec(fmt.Sprintf("REPLACE INTO account VALUES (1, 'a', %d), (2, 'a', %[1]d), (3, 'b', 1)", i+1))
	}
	l.exec("DELETE FROM account WHERE id = 2")
	return &resetLab{l, rdb, url + "/" + index}
}

func (l *resetLab) start(at, more string) {
	l.configure(strings.Replace(source, "[source]", "[source]\nstart = \""+at+"\"", 1),
		strings.ReplaceAll(resetViews, "sum = \"$n\"\n", "sum = \"$n\"\n"+more))
}

// seen returns what readers of each sink see.
func (l *resetLab) seen() (map[string]string, error) {
	sums, err := tryRows(l.t.Context(), l.db, "SELECT grp, n FROM sums ORDER BY grp")
	if err != nil {
		return nil, err
	}
	seen := map[string]string{"a counter in MySQL": fmt.Sprint(sums)}
	for _, id := range []string{"1", "2", "3"} {
		v, err := l.rdb.HGet(l.t.Context(), "account:"+id, "n").Result()
		if err != nil && err != goredis.Nil {
			return nil, err
		}
		seen["a hash in Redis"] += v + " "
		doc, err := l.document(id)
		if err != nil {
			return nil, err
		}
		seen["a document"] += doc + " "
	}
	for _, grp := range []string{"a", "b"} {
		v, err := l.rdb.Get(l.t.Context(), "sum:"+grp).Result()
		if err != nil && err != goredis.Nil {
			return nil, err
		}
		seen["a counter in Redis"] += v + " "
	}
	return seen, nil
}

func (l *resetLab) document(id string) (string, error) {
	res, err := http.Get(l.url + "/_search?q=_id:" + id)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	var found struct {
		Hits struct {
			Hits []struct {
				Source struct{ N json.Number } `json:"_source"`
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil || len(found.Hits.Hits) == 0 {
		return "", err
	}
	return found.Hits.Hits[0].Source.N.String(), nil
}

// watch reads the views repeatedly while do runs. It fails the test if a reader sees a change.
func (l *resetLab) watch(what string, do func()) {
	l.t.Helper()
	want, err := l.seen()
	if err != nil {
		l.t.Fatal(err)
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	looks := 0
	wrong := map[string]string{}
	wg.Go(func() {
		for {
			got, err := l.seen()
			if err != nil {
				wrong["error"] = err.Error()
				return
			}
			looks++
			for name := range want {
				if got[name] != want[name] && wrong[name] == "" {
					wrong[name] = got[name]
				}
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	do()
	close(over)
	wg.Wait()
	for name, got := range wrong {
		l.t.Errorf("%s: a reader of %s saw %q, not %q", what, name, got, want[name])
	}
	if looks < 2 {
		l.t.Errorf("%s: readers looked %d times", what, looks)
	}
}

// A reset forgets only positions. Whatever the next run does to correct the views, readers see neither old nor missing
// entries.
func TestAResetShowsNoStepBack(t *testing.T) {
	t.Parallel()
	l := newResetLab(t)
	l.start("earliest", "")
	l.must("run", "--until-caught-up")
	want, err := l.seen()
	if err != nil || want["a document"] != "40  1 " || want["a hash in Redis"] != "40  1 " ||
		want["a counter in Redis"] != "40 1 " || want["a counter in MySQL"] != "[a 40 b 1]" {
		t.Fatalf("before: %q, %v", want, err)
	}
	for _, start := range []string{"earliest", "snapshot", "latest"} {
		l.start(start, "")
		l.watch("reset with start = "+start, func() {
			l.must("checkpoint", "reset", "--yes")
			if got := l.saved(); len(got) != 0 {
				t.Errorf("positions after a reset: %+v", got)
			}
			l.must("run", "--until-caught-up")
		})
	}
	// Two resets without a run between them, and then a reset after a RESET of the binlogs.
	l.start("earliest", "")
	l.watch("two resets", func() {
		l.must("checkpoint", "reset", "--yes")
		l.must("checkpoint", "reset", "--yes")
		l.must("run", "--until-caught-up")
	})
	l.exec("RESET BINARY LOGS AND GTIDS")
	l.watch("reset after RESET", func() {
		l.must("checkpoint", "reset", "--yes")
		l.must("run", "--until-caught-up")
	})
	// Later changes must count as newer than everything in the sinks.
	l.exec("UPDATE account SET n = 7 WHERE id = 1", "DELETE FROM account WHERE id = 3")
	l.must("run", "--until-caught-up")
	if got, err := l.seen(); err != nil || got["a document"] != "7   " || got["a hash in Redis"] != "7   " ||
		got["a counter in MySQL"] != "[a 7]" {
		t.Errorf("afterwards: %q, %v", got, err)
	}

	// A fill corrects unread changes and changes by hand.
	l.exec("DELETE FROM account WHERE id = 1", "INSERT INTO account VALUES (3, 'b', 9)", "UPDATE sums SET n = 4711")
	l.exec("RESET BINARY LOGS AND GTIDS")
	if err := l.rdb.Del(t.Context(), "account:3").Err(); err != nil {
		t.Fatal(err)
	}
	l.start("snapshot", "")
	l.must("checkpoint", "reset", "--yes")
	l.must("run", "--until-caught-up")
	if got, err := l.seen(); err != nil || got["a document"] != "  9 " || got["a hash in Redis"] != "  9 " ||
		got["a counter in MySQL"] != "[b 9]" {
		t.Errorf("after a fill: %q, %v", got, err)
	}

	l.must("checkpoint", "forget", "--yes", "sums")
	if r := l.run("checkpoint", "forget", "--yes"); r.code != 2 {
		t.Errorf("forgetting nothing in particular: %+v", r)
	}
	l.must("run", "--until-caught-up")
	if got, err := l.seen(); err != nil || got["a counter in MySQL"] != "[b 9]" {
		t.Errorf("after it was forgotten: %q, %v", got, err)
	}
}

// The fill after a reset clears letters whose cells were deleted.
func TestAFillAfterAResetClearsLetters(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org", "phone": 4155550100}`)
	l.put("b", 1, `{"email": "b@x.org", "phone": 4155550100}`)
	l.put("c", 1, `{"email": `)
	l.must("run", "--until-caught-up")
	if got := l.letters(); len(got) != 7 {
		t.Fatalf("letters: %+v", got)
	}
	l.session("SET SESSION sql_log_bin = 0", "DELETE FROM cell WHERE RIGHT(row_key, 1) <> 'b'")
	l.must("checkpoint", "reset", "--yes")
	l.must("run", "--until-caught-up")
	got := l.letters()
	for _, x := range got {
		if x.Key != keyText("b") {
			t.Errorf("a letter remains: %+v", x)
		}
	}
	if len(got) != 2 {
		t.Errorf("letters: %+v", got)
	}
	l.expect(emails, "b@x.org b")
}

// A view that the sink lost is filled, whatever start says, even after several resets before the next run.
func TestResetsOfALostViewFillItWhateverStartSays(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.configure(source, program, mainSink, emailView)
	l.must("run", "--until-caught-up")
	l.configure(source, "start = \"latest\"\n", program, mainSink, emailView)
	l.exec("DELETE FROM replicator_views", "DELETE FROM replicator_state", "DELETE FROM index_users_email")
	for range 2 {
		l.must("checkpoint", "reset", "--yes")
	}
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a")
}
