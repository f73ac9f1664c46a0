package main

import (
	"maps"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
	"replicator/service"
)

// The commands that operators use in an outage must name the server that is down, and show what is known without it.
func TestCommandsSayWhichServerIsDown(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, _ := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE a (id INT PRIMARY KEY, x VARCHAR(10))",
		"CREATE TABLE amounts (x INT, id INT, PRIMARY KEY (x, id), KEY (id))", "INSERT INTO a VALUES (1, 'one')")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, `
[tables.a]
key = "id"
`+redisSink+`
[views.v]
sink = "cache"
from = "a"
kind = "hash"
key = "v:{id}"
fields = ["x"]
[views.sum]
sink = "cache"
from = "a"
kind = "counter"
key = "sum"
sum = "x"
[views.amounts]
sink = "main"
from = "a"
kind = "index"
fields = ["x"]
`)
	p := l.running()
	l.caughtUp()
	if n := len(l.letters()); n != 2 {
		t.Fatalf("%d dead letters, want those of sum and amounts", n)
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	fails := func(want []string, args ...string) result {
		t.Helper()
		r := l.run(args...)
		for _, w := range want {
			if r.code != exitFailed || !strings.Contains(r.errors, w) {
				t.Errorf("%v: exit status %d, and %q is not said:\n%s", args, r.code, w, r.errors)
			}
		}
		return r
	}
	fails([]string{"view sum: ", "connection refused"}, "deadletters", "retry", "--view", "sum")
	p.stop()
	down := []string{"view v: sink cache: ", "the server runs at this address"}
	fails(down, "verify", "v")
	fails(down, "explain", "v", "1")
	r := fails(down, "explain", "--json", "v", "1")
	e := jsonLines[service.Explanation](t, r.out)
	if len(e) != 1 || !e[0].Exists || len(e[0].Expected) != 1 || e[0].Holds != service.Unknown {
		t.Errorf("of the source it shows %s", r.out)
	}
	fails([]string{"view sum: ", "connection refused"}, "deadletters", "retry", "--view", "sum")
	fails([]string{"1 dead letter left"}, "deadletters", "retry", "--view", "amounts") // the sink of view amounts is up

	l.env["DSN"] = strings.Replace(l.env["DSN"], l.server.Addr(), redis.Addr(), 1)
	for _, args := range [][]string{{"explain", "v", "1"}, {"tail"}} {
		fails([]string{"source: ", "the server runs at this address"}, args...)
	}
}

// Some checks need the source. If it is down, they must not blame the views or the sinks.
func TestASourceThatIsDownIsOneFault(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.env["SINK"], l.env["DSN"] = l.env["DSN"], l.dsn(servertest.FreeAddress(t), l.database)
	l.env["ELASTIC"] = servertest.Elasticsearch(t)
	l.configure(source, strings.Split(program, "[tables.cell]")[0], strings.Replace(mainSink, "DSN", "SINK", 1), `
[tables.a]
key = "id"
`+elasticSink+`
[views.list]
sink = "main"
from = "a"
kind = "index"
fields = ["x"]
create = true
[views.there]
sink = "main"
from = "a"
kind = "index"
fields = ["x"]
[views.documents]
sink = "search"
from = "a"
kind = "document"
index = "`+l.database+`"
fields = ["x"]
`)
	l.exec("CREATE TABLE there (x VARCHAR(10), id INT, PRIMARY KEY (x, id), KEY (id))")
	type finding struct{ What, Level, Detail, Fix string }
	said := map[string]string{}
	for _, f := range jsonLines[finding](t, l.run("check", "--json").out) {
		if f.Level == "fail" {
			said[f.What] = f.Fix
		}
	}
	const see = "see the findings on the source"
	want := map[string]string{"connection": "check the DSN, that the server runs, and the account's password",
		"view list": see, "view there": see, "sink main: marks": see, "view documents: index": see,
		"sink search: marks": see}
	if !maps.Equal(said, want) {
		t.Errorf("it says\n%v\nnot\n%v", said, want)
	}

	r := l.run("schema") // it fails, because the types come from the source
	if r.code != exitFailed || r.out != "" || !strings.Contains(r.errors, "sink main: view list: ") ||
		!strings.Contains(r.errors, "source") || !strings.Contains(r.errors, "connection refused") {
		t.Errorf("schema: %+v", r)
	}
}
