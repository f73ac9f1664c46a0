package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// refused has the views that must be refused, each for another reason, and a part of the error.
var refused = map[string]string{
	"places":   "its column spot would have a type that the program can't write",
	"too_long": "creating table too_long from its types",
	"absent":   "is missing in sink main",
	"keyless":  "ADD KEY",
	"denied":   "trying out what the view needs on table",
	"ranked":   "zadd",
	"searched": "mapping_file",
}

const refusedViews = `
[sinks.poor]
type = "mysql"
dsn = "${POOR}"
` + redisSink + elasticSink + `
[tables.place]
key = "id"

[views.places]
from = "place"
sink = "main"
kind = "row"
create = true
key = { id = "$id" }
fields = ["name", "spot"]
types = { name = "VARCHAR(20)", spot = "POINT" }

[views.too_long]
from = "cell.users"
sink = "main"
kind = "counter"
create = true
group = ["username", "email"]
types = { username = "VARCHAR(450)", email = "VARCHAR(450)" }

[views.absent]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["phone"]

[views.keyless]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["email"]

[views.denied]
from = "cell.users"
sink = "poor"
kind = "row"
key = { id = "$row_key" }
fields = ["email"]

[views.allowed]
from = "cell.users"
sink = "poor"
kind = "row"
key = { id = "$row_key" }
fields = ["email"]

[views.ranked]
from = "cell.users"
sink = "cache"
kind = "ranking"
key = "ranked"
member = "{row_key}"
sum = "phone"

[views.cached]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "user:{row_key}"
fields = ["email"]

[views.searched]
from = "cell.users"
sink = "search"
kind = "document"
index = "${INDEX}-bad"
fields = ["email"]
mapping_file = "mapping.json"
` + searchView

// newRefusals returns a lab in which each sink has these views and healthy ones.
func newRefusals(t *testing.T) *lab {
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(cellTable, emailTable, "CREATE TABLE place (id INT PRIMARY KEY, name VARCHAR(20), spot POINT)",
		"CREATE TABLE keyless (email VARCHAR(100) NOT NULL, row_key BINARY(16) NOT NULL, PRIMARY KEY (email, row_key))",
		"INSERT INTO place VALUES (1, 'here', NULL)")
	second := servertest.Database(t, l.server)
	execAll(t, l.connect(l.server, second), "CREATE TABLE allowed (id BINARY(16) PRIMARY KEY, email VARCHAR(100))",
		"CREATE TABLE denied (id BINARY(16) PRIMARY KEY, email VARCHAR(100))")
	root := l.connect(l.server, "")
	grants := []string{"CREATE ON " + second + ".*", "SELECT ON " + second + ".denied", "ALL ON " + second + ".allowed"}
	for _, own := range []string{"views", "state", "locks"} {
		grants = append(grants, "ALL ON "+second+".replicator_"+own)
	}
	for _, g := range grants {
		execAll(t, root, "GRANT "+g+" TO "+l.user+"@'%'")
	}
	redis, rdb := ownRedis(t)
	if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-zadd").Err(); err != nil {
		t.Fatal(err)
	}
	l.env["POOR"], l.env["REDIS"] = l.dsn(l.server.Addr(), second), "redis://"+redis.Addr()+"/0"
	l.env["ELASTIC"], l.env["INDEX"] = servertest.Elasticsearch(t), servertest.Name()
	if err := os.WriteFile(filepath.Join(l.dir, "mapping.json"),
		[]byte(`{"properties": {"email": {"type": "txet"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.configure(source, program, mainSink, emailView, refusedViews)
	return l
}

// In every sink, a view that can't be kept fails without affecting other views. check reports it in advance in the same
// words.
func TestCheckForetellsEveryViewThatARunRefuses(t *testing.T) {
	t.Parallel()
	l := newRefusals(t)
	l.put("a", 1, `{"username": "ann", "email": "a@x.org", "phone": 1}`)
	type finding struct{ What, Level, Detail string }
	r := l.run("check", "--json")
	details := map[string]string{}
	for _, f := range jsonLines[finding](t, r.out) {
		if f.Level != "fail" {
			continue
		}
		view, _, _ := strings.Cut(strings.TrimPrefix(f.What, "view "), ":")
		if _, bad := refused[view]; !bad {
			t.Errorf("check fails %s: %s", f.What, f.Detail)
		}
		details[view] = f.Detail
	}
	if r.code != exitFailed {
		t.Errorf("check: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	p := l.running()
	healthy := []string{"index_users_email", "allowed", "cached", "user_search"}
	l.caughtUp(healthy...)
	l.expect(emails, "a@x.org a")
	for view, want := range refused {
		st := l.reaches(view, "failed")
		if !strings.Contains(st.Error, want) || details[view] == "" || !strings.Contains(st.Error, details[view]) {
			t.Errorf("view %s: status says %q, check %q; want %q in both", view, st.Error, details[view], want)
		}
	}
	for _, view := range healthy {
		if st := l.status(view); st.State != "running" || st.Error != "" {
			t.Errorf("view %s is %s (%s)", view, st.State, st.Error)
		}
	}
	p.stop()
	if r := l.run("run", "--until-caught-up"); r.code != exitFailed ||
		!strings.Contains(r.errors, "is missing in sink main") {
		t.Errorf("run until all have caught up: exit status %d\n%s", r.code, r.errors)
	}
}
