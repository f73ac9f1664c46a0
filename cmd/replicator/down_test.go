package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
	"replicator/service"
)

// TestCommandsSayWhichServerIsDown: what is asked at 3 a.m. names the server, and shows what can be known without it.
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
[sinks.cache]
type = "redis"
url = "${REDIS}"
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
	down := []string{"view v: sink cache: ", "is it running"}
	fails(down, "verify", "v")
	fails(down, "explain", "v", "1")
	r := fails(down, "explain", "--json", "v", "1")
	e := jsonLines[service.Explanation](t, r.out)
	if len(e) != 1 || !e[0].Exists || len(e[0].Expected) != 1 || e[0].Holds != service.Unknown {
		t.Errorf("of the source it shows %s", r.out)
	}
	fails([]string{"view sum: ", "connection refused"}, "deadletters", "retry", "--view", "sum")
	fails([]string{"1 dead letter left"}, "deadletters", "retry", "--view", "amounts") // whose sink is not down

	l.env["DSN"] = strings.Replace(l.env["DSN"], l.server.Addr(), redis.Addr(), 1)
	for _, args := range [][]string{{"explain", "v", "1"}, {"tail"}} {
		fails([]string{"source: ", "is it running"}, args...)
	}
}
