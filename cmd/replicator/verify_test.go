package main

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/internal/servers/servertest"
	"replicator/verify"
)

// Several cells make one entity in the sink. verify counts a difference of the entity once, whichever of its cells a
// pass reads, and repairs the whole entity.
func TestVerifyCountsAnEntityOfSeveralCellsOnceAndRepairsAllOfIt(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	url, index := servertest.Elasticsearch(t), servertest.Name()
	l.env["REDIS"], l.env["ELASTIC"], l.env["INDEX"] = "redis://"+redis.Addr()+"/0", url, index
	l.exec(cellTable)
	const keys = "abcdefghijklmnopqrstuvwxyz"
	for _, key := range keys {
		if key != 'b' {
			l.put(string(key), 1, fmt.Sprintf(`{"username": "%c"}`, key))
		}
		l.exec(fmt.Sprintf("INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (0x%s, 'profile', 1, '{\"city\": \"city of %c\"}')", keyText(string(key)), key))
	}
	l.configure(source, program, redisSink+elasticSink+`
[views.person]
from = ["cell.users", "cell.profile"]
sink = "cache"
kind = "hash"
key = "person:{row_key}"
fields = ["username", "city"]

[views.people]
from = ["cell.users", "cell.profile"]
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["username", "city"]
`)
	l.must("run", "--until-caught-up")
	for _, key := range "ab" {
		if n, err := rdb.Del(t.Context(), "person:"+keyText(string(key))).Result(); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete,
			url+"/"+index+"/_doc/"+keyText(string(key)), bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if err := rdb.HSet(t.Context(), "person:"+keyText("c"), "username", "x", "city", "y").Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"people": {"a users missing", "b profile missing"},
		"person": {"a users missing", "b profile missing", "c users stale"}}
	for _, repair := range []bool{false, true} {
		args := []string{"verify", "--json"}
		if repair {
			args = append(args, "--repair")
		}
		for _, result := range jsonLines[verify.Result](t, l.run(args...).out) {
			var got []string
			for _, d := range result.Differences {
				got = append(got, fmt.Sprintf("%c %s %s", 'a'+d.Key[len(d.Key)-1]-'1', d.Column, d.Kind))
			}
			slices.Sort(got)
			if n := result.Missing + result.Stale + result.Extra; !slices.Equal(got, want[result.View]) ||
				n != int64(len(got)) || repair && result.Repaired != n {
				t.Errorf("%v: %s: %+v", args, result.View, result)
			}
		}
	}
	l.must("verify")
	if got, err := rdb.HGetAll(t.Context(), "person:"+keyText("a")).Result(); err != nil || got["username"] != "a" ||
		got["city"] != "city of a" {
		t.Errorf("the hash of a holds %v (%v)", got, err)
	}
}

func TestVerifySaysWhatItFoundAlsoWhereAViewCanNotBeVerified(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"username": "a"}`)
	l.configure(strings.Replace(cellViews, "\n[views.users]\n", `
[views.cities]
from = "cell.users"
sink = "main"
kind = "counter"
group = ["city"]
create = true
types = { city = "VARCHAR(50) NOT NULL", cnt = "BIGINT NOT NULL" }

[views.users]
`, 1))
	r := l.run("verify", "--json", "cities", "users")
	found := jsonLines[verify.Result](t, r.out)
	if r.code != exitFailed || !strings.Contains(r.errors, "cities") || len(found) != 1 ||
		found[0].View != "users" || found[0].Missing != 1 {
		t.Errorf("exit status %d, %s%s", r.code, r.out, r.errors)
	}
}

// A view takes all columns of a table, so verify must ask the source which cells an entity has.
func TestVerifyOfAViewOfEveryColumnOfATable(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.program = built // no need for the race detector here
	l.exec(cellTable)
	for _, key := range []string{"a", "b", "c"} {
		l.put(key, 1, `{"username": "u"}`)
		l.exec("INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (0x" + keyText(key) +
			`, 'profile', 1, '{"city": "x"}')`)
	}
	l.configure(source, program, mainSink, `
[views.everything]
from = "cell"
sink = "main"
kind = "row"
key = { id = "$row_key" }
fields = ["username", "city"]
create = true
types = { id = "BINARY(16) NOT NULL", username = "VARCHAR(50)", city = "VARCHAR(50)" }
`)
	p := l.running()
	l.caughtUp()
	l.must("verify")
	damage := []string{"DELETE FROM everything WHERE id = 0x" + keyText("a"),
		"UPDATE everything SET city = 'y' WHERE id = 0x" + keyText("b"),
		"INSERT INTO everything VALUES (0x" + keyText("g") + ", 'ghost', NULL)"}
	for _, mend := range [][]string{{"verify", "--repair"}, {"rebuild", "--in-place", "everything"},
		{"verify", "--repair"}} {
		l.exec(damage...)
		r := jsonLines[verify.Result](t, l.run("verify", "--json").out)
		if len(r) != 1 || r[0].Missing != 1 || r[0].Stale != 1 || r[0].Extra != 1 {
			t.Errorf("verify found %+v", r)
		}
		l.must(mend...)
		l.must("verify")
		l.expect("SELECT username, city FROM everything", "u x", "u x", "u x")
	}
	if text := l.must("explain", "everything", keyText("a")); !strings.Contains(text, "cell.profile") ||
		!strings.Contains(text, "cell.users") {
		t.Errorf("explain says\n%s", text)
	}
	p.stop()
}

func TestVerifyingIsHeldToItsRate(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	for i := range 26 {
		l.put(string(rune('a'+i)), 1, `{"username": "x", "email": "a@x.org", "phone": 1}`)
	}
	l.configure(source, program, mainSink, usersView)
	l.must("run", "--until-caught-up")
	began := time.Now()
	l.must("verify", "--repair", "--rate", "20", "users")
	// Both passes read all 26 cells. There is no pause after the last page of a pass.
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("52 looks at 20 a second took %s", took)
	}
}
