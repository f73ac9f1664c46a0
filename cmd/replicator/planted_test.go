package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/servers/servertest"
	"replicator/verify"
)

// The tests plant differences in the views by hand while a writer changes other entities of the same table at full
// speed. verify must find exactly the planted differences, and none after a repair.

// plantedEntities is the number of entities that only the tests change. Each entity with an even number has its own
// city and an email. The others have neither.
const plantedEntities = 40

// planting is a sink in which a test plants differences.
type planting struct {
	*lab
	sink  string
	views map[string][]plant // the differences that can be planted in each view by hand
	next  int64              // the version of the next write
}

// plant is a way to plant a difference of one kind in an entity's entries in a view.
type plant struct {
	kind string
	bare bool // the entity should have no entries in the view
	do   func(p *planting, key string)
}

// entity returns the key of the nth entity that the writer doesn't change. worked returns the key of one that it
// changes.
func entity(n int) string { return fmt.Sprintf("%032x", 0xaa00+n) }
func worked(n int) string { return fmt.Sprintf("%032x", 0xbb0000+n) }

// bodyOf returns the initial body of the nth entity.
func bodyOf(n int) string {
	if n%2 == 1 {
		return `{"phone": 7}`
	}
	return fmt.Sprintf(`{"username": "u%d", "email": "%d@x.org", "city": "city %d", "points": %d}`, n, n, n, n+1)
}

// write writes a version of a cell.
func (p *planting) write(db *sql.DB, key string, version int64, body string) error {
	_, err := db.ExecContext(p.t.Context(),
		"INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (UNHEX(?), 'users', ?, ?)", key, version, body)
	return err
}

// unlogged changes the source without writing to the binlog.
func (p *planting) unlogged(statement string, args ...any) {
	p.t.Helper()
	db := p.connect(p.server, p.database)
	defer db.Close()
	db.SetMaxOpenConns(1)
	execAll(p.t, db, "SET SESSION sql_log_bin = 0")
	if _, err := db.ExecContext(p.t.Context(), statement, args...); err != nil {
		p.t.Fatal(err)
	}
}

// inSource returns ways to change the source so that every view differs, because the program never learns of the
// change.
func inSource() []plant {
	insert := "INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (UNHEX(?), 'users', ?, ?)"
	return []plant{
		{kind: "stale", do: func(p *planting, key string) {
			p.unlogged(insert, key, p.next,
				fmt.Sprintf(`{"username": "s", "email": "stale%d@x.org", "city": "stale %d", "points": 500}`, p.next, p.next))
		}},
		{kind: "extra", do: func(p *planting, key string) { p.unlogged("DELETE FROM cell WHERE row_key = UNHEX(?)", key) }},
		{kind: "missing", bare: true, do: func(p *planting, key string) {
			p.unlogged(insert, key, p.next,
				fmt.Sprintf(`{"username": "m", "email": "missing%d@x.org", "city": "missing %d", "points": 500}`, p.next, p.next))
		}},
	}
}

// startWriting starts a writer that changes its own entities until the returned function is called. That function
// returns how many changes it made.
func (p *planting) startWriting(seed uint64) (stop func() int) {
	ctx, cancel := context.WithCancel(p.t.Context())
	db := p.connect(p.server, p.database)
	r := rand.New(rand.NewPCG(seed, 1))
	wrote := 0
	var writing sync.WaitGroup
	writing.Go(func() {
		for ; ctx.Err() == nil; wrote++ {
			began := time.Now()
			key := worked(r.IntN(300))
			var err error
			if r.IntN(6) == 0 {
				_, err = db.ExecContext(ctx, "DELETE FROM cell WHERE row_key = UNHEX(?) ORDER BY ref_key DESC LIMIT 1", key)
			} else {
				err = p.write(db, key, time.Now().UnixNano(),
					fmt.Sprintf(`{"username": "w", "email": "%d@x.org", "city": "town %d", "points": %d}`,
						r.IntN(plantedEntities), r.IntN(5), r.IntN(100)))
			}
			if err != nil && ctx.Err() == nil {
				p.t.Errorf("the writer: %v", err)
				return
			}
			ease(ctx, wrote, time.Since(began))
		}
	})
	return func() int { cancel(); writing.Wait(); return wrote }
}

// plantSome plants differences of all kinds in all views. It returns each view's differences as KEY KIND.
func (p *planting) plantSome(r *rand.Rand) map[string][]string {
	p.t.Helper()
	planted := map[string][]string{}
	full, bare := r.Perm(plantedEntities/2), r.Perm(plantedEntities/2)
	take := func(plant plant) string {
		from, odd := &full, 0
		if plant.bare {
			from, odd = &bare, 1
		}
		n := (*from)[0]
		*from = (*from)[1:]
		return entity(2*n + odd)
	}
	note := func(view, key, kind string) { planted[view] = append(planted[view], key+" "+kind) }
	for _, plant := range inSource() {
		p.next++
		key := take(plant)
		plant.do(p, key)
		for view := range p.views {
			note(view, key, plant.kind)
		}
	}
	for _, view := range slices.Sorted(maps.Keys(p.views)) {
		for _, plant := range p.views[view] {
			if r.IntN(4) == 0 {
				continue
			}
			p.next++
			key := take(plant)
			plant.do(p, key)
			note(view, key, plant.kind)
		}
	}
	return planted
}

// restore writes the initial bodies of all entities, for the next run.
func (p *planting) restore() {
	p.t.Helper()
	for n := range plantedEntities {
		p.next++
		if err := p.write(p.db, entity(n), p.next, bodyOf(n)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.caughtUp()
}

// verify runs `replicator verify` and returns each view's differences as KEY KIND.
func (p *planting) verify(code int, args ...string) map[string][]string {
	p.t.Helper()
	r := p.run(append([]string{"verify", "--json", "--all"}, args...)...)
	if r.code != code {
		p.t.Errorf("verify %v: exit status %d, not %d: %s\n%s", args, r.code, code, r.errors, r.out)
	}
	found := map[string][]string{}
	for _, result := range jsonLines[verify.Result](p.t, r.out) {
		for _, d := range result.Differences {
			found[result.View] = append(found[result.View], fmt.Sprintf("%s %s", d.Key, d.Kind))
		}
		if n := result.Missing + result.Stale + result.Extra; n != int64(len(result.Differences)) {
			p.t.Errorf("%s: %d differences are counted, %d named", result.View, n, len(result.Differences))
		}
	}
	return found
}

// compare fails the test unless the differences that were found are those that were planted.
func (p *planting) compare(run int, planted, found map[string][]string) {
	p.t.Helper()
	for view := range p.views {
		slices.Sort(planted[view])
		slices.Sort(found[view])
		if !slices.Equal(planted[view], found[view]) {
			p.t.Errorf("run %d: view %s:\nplanted %v\nfound   %v", run, view, planted[view], found[view])
		}
	}
}

// plantAndVerify repeats all steps a number of times: plant, verify, repair and verify.
func (p *planting) plantAndVerify(runs int) {
	seed := uint64(time.Now().UnixNano())
	p.t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p.restore()
	wrote, planted := 0, 0
	for run := range runs {
		stop := p.startWriting(seed + uint64(run))
		what := p.plantSome(r)
		p.compare(run, what, p.verify(exitDiffer))
		p.verify(exitDone, "--repair") // it also repairs the siblings of a view, which then have fewer differences
		p.compare(run, nil, p.verify(exitDone))
		wrote += stop()
		for _, w := range what {
			planted += len(w)
		}
		p.restore()
		p.compare(run, nil, p.verify(exitDone)) // also without a writer
		if p.t.Failed() {
			return
		}
		if run%10 == 9 {
			p.t.Logf("%d runs", run+1)
		}
	}
	p.t.Logf("%s: %d runs, %d differences planted, found and repaired, %d changes written meanwhile",
		p.sink, runs, planted, wrote)
}

// plantings returns a function for each sink that sets it up with its views.
func plantings() map[string]func(t *testing.T) *planting {
	return map[string]func(t *testing.T) *planting{"mysql": inMySQL, "redis": inRedis, "elasticsearch": inElasticsearch}
}

func TestVerifyFindsWhatWasPlantedAndRepairsIt(t *testing.T) {
	t.Parallel()
	for sink, prepare := range plantings() {
		t.Run(sink, func(t *testing.T) { prepare(t).plantAndVerify(1) })
	}
}

func TestSoakVerifyFindsWhatWasPlantedAndRepairsIt(t *testing.T) {
	if os.Getenv("REPLICATOR_SOAK") == "" {
		t.Skip("a soak test: REPLICATOR_SOAK is not set")
	}
	for sink, prepare := range plantings() {
		t.Run(sink, func(t *testing.T) { prepare(t).plantAndVerify(100) })
	}
}

// starting starts the program with the views of one sink.
func (p *planting) starting(parts ...string) *planting {
	p.t.Helper()
	p.program = built
	p.configure(append([]string{source, program}, parts...)...)
	p.running()
	return p
}

func inMySQL(t *testing.T) *planting {
	statement := func(text string, args ...any) func(*planting, string) {
		return func(p *planting, key string) {
			execAll(p.t, p.db, fmt.Sprintf(strings.ReplaceAll(text, "KEY", "0x"+key), args...))
		}
	}
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(cellTable, usersTable, emailTable)
	p := &planting{lab: l, sink: "mysql", views: map[string][]plant{
		"index_users_email": {
			{kind: "missing", do: statement("DELETE FROM index_users_email WHERE row_key = KEY")},
			{kind: "stale", do: statement("UPDATE index_users_email SET email = CONCAT('planted', email) WHERE row_key = KEY")},
			{kind: "stale", do: statement("INSERT INTO index_users_email VALUES ('one more', KEY)")},
			{kind: "extra", bare: true, do: statement("INSERT INTO index_users_email VALUES ('planted', KEY)")},
		},
		"users": {
			{kind: "missing", do: statement("DELETE FROM users WHERE id = KEY")},
			{kind: "stale", do: statement("UPDATE users SET username = 'planted' WHERE id = KEY")},
			{kind: "stale", do: statement("UPDATE users SET email = NULL WHERE id = KEY")},
			{kind: "extra", bare: true, do: statement("INSERT INTO users (id, username) VALUES (KEY, 'planted')")},
		},
		"points": {}, // a difference in a counter belongs to a group, not to an entity
	}}
	// The row view has a where, so that some entities should have no row.
	return p.starting(mainSink, emailView, usersView, "where = \"email != ''\"\n", `
[views.points]
from = "cell.users"
sink = "main"
kind = "counter"
group = ["city"]
sum = "points"
create = true
types = { city = "VARCHAR(50) NOT NULL", points = "BIGINT NOT NULL" }
`)
}

func inRedis(t *testing.T) *planting {
	s, rdb := ownRedis(t)
	command := func(args ...string) func(*planting, string) {
		return func(p *planting, key string) {
			words := make([]any, len(args))
			number := 0
			fmt.Sscanf(key, "%x", &number)
			for i, a := range args {
				words[i] = strings.NewReplacer("KEY", key, "N", fmt.Sprint(number-0xaa00)).Replace(a)
			}
			if n, err := rdb.Do(p.t.Context(), words...).Result(); err != nil || n == int64(0) && args[0] != "hset" {
				p.t.Fatalf("%v: %v %v", words, n, err)
			}
		}
	}
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(cellTable)
	l.env["REDIS"] = "redis://" + s.Addr() + "/0"
	p := &planting{lab: l, sink: "redis", views: map[string][]plant{
		"user": {
			{kind: "missing", do: command("del", "user:KEY")},
			{kind: "stale", do: command("hset", "user:KEY", "email", "planted")},
			{kind: "stale", do: command("hdel", "user:KEY", "username")},
		},
		"user_json": {
			{kind: "missing", do: command("del", "json:KEY")},
			{kind: "stale", do: command("append", "json:KEY", "planted")},
		},
		"by_email":   {{kind: "missing", do: command("srem", "email:N@x.org", "KEY")}},
		"one_city":   {{kind: "missing", do: command("del", "one:city N")}},
		"by_points":  {{kind: "stale", do: command("incrby", "points:city N", "3")}},
		"top_cities": {{kind: "stale", do: command("zincrby", "cities", "3", "city N")}},
	}}
	return p.starting(redisSink + `
[views.user]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "user:{row_key}"
fields = ["username", "email"]
where = "email != ''"

[views.user_json]
from = "cell.users"
sink = "cache"
kind = "json"
key = "json:{row_key}"
fields = ["username", "city"]
where = "email != ''"

[views.by_email]
from = "cell.users"
sink = "cache"
kind = "index"
key = "email:{email}"

[views.one_city]
from = "cell.users"
sink = "cache"
kind = "index"
key = "one:{city}"
unique = true

[views.by_points]
from = "cell.users"
sink = "cache"
kind = "counter"
key = "points:{city}"
sum = "points"

[views.top_cities]
from = "cell.users"
sink = "cache"
kind = "ranking"
key = "cities"
member = "{city}"
sum = "points"
`)
}

// The states of some cells were changed by hand, so the sink treats a repair as older than what it has. Such a repair
// is not counted. verify finds these cells even if nothing else differs, and a rebuild fixes them.
func TestARepairThatChangesNothingIsNotCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.env["ELASTIC"], l.env["INDEX"] = servertest.Elasticsearch(t), servertest.Name()
	l.configure(source, program, elasticSink+`
[views.people]
from = "cell.users"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["email"]
`)
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.put("b", 1, `{"email": "b@x.org"}`)
	l.put("c", 1, `{"email": "c@x.org"}`)
	l.must("run", "--until-caught-up")
	const future = `"_replicator": {"cells": {"cell.users": {"o": 1000000000000000000}}}`
	for key, body := range map[string]string{"a": `{"doc": {"email": "planted", ` + future + `}}`,
		"b": `{"doc": {"email": "planted"}}`, "c": `{"doc": {` + future + `}}`} {
		answer, err := http.Post(l.env["ELASTIC"]+"/"+l.env["INDEX"]+"/_update/"+keyText(key)+"?refresh=true", "application/json",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Fatalf("%s: %s", answer.Status, said)
		}
	}
	r := l.run("verify", "--repair", "--json", "people")
	if r.code != 3 || !strings.Contains(r.out, `"stale":3,`) || !strings.Contains(r.out, `"repaired":1`) ||
		!strings.Contains(r.errors, "the source has. Use `replicator rebuild people -c "+l.file()+"`") {
		t.Errorf("exit status %d: %s%s", r.code, r.out, r.errors)
	}
	l.must("rebuild", "people")
	l.must("run", "--until-caught-up")
	l.must("verify", "people")
}

func inElasticsearch(t *testing.T) *planting {
	url := servertest.Elasticsearch(t)
	index := servertest.Name()
	request := func(method, path, body string) func(*planting, string) {
		return func(p *planting, key string) {
			r, err := http.NewRequestWithContext(p.t.Context(), method, url+"/"+index+strings.ReplaceAll(path, "KEY", key),
				bytes.NewBufferString(body))
			if err != nil {
				p.t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				p.t.Fatal(err)
			}
			defer answer.Body.Close()
			var said json.RawMessage
			if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || answer.StatusCode != 200 {
				p.t.Fatalf("%s %s: %s %s %v", method, path, answer.Status, said, err)
			}
		}
	}
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(cellTable)
	l.env["ELASTIC"], l.env["INDEX"] = url, index
	view := strings.ReplaceAll(index, "-", "_")
	p := &planting{lab: l, sink: "elasticsearch", views: map[string][]plant{view: {
		{kind: "missing", do: request("DELETE", "/_doc/KEY", "")},
		{kind: "stale", do: request("POST", "/_update/KEY?retry_on_conflict=50", `{"doc": {"email": "planted"}}`)},
		{kind: "stale", do: request("POST", "/_update/KEY?retry_on_conflict=50", `{"doc": {"username": null}}`)},
	}}}
	return p.starting(elasticSink + `
[views.` + view + `]
from = "cell.users"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["username", "email", "city"]
where = "email != ''"
`)
}
