package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// TestThePlanOfAChangedFile checks that plan predicts what the program does, and that plan changes nothing.
func TestThePlanOfAChangedFile(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.program = built // no need for the race detector here
	for i := range 30 {
		l.put(string(rune('A'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org", "phone": %d}`, i, i))
	}
	l.exec("ANALYZE TABLE cell", "CREATE TABLE more LIKE index_users_email")
	more := strings.ReplaceAll(emailView, "index_users_email", "more")
	p := l.running()
	l.caughtUp()
	type planned struct {
		View, Sink, Kind, Action, Reason string
		Rows                             int64
		Seconds                          float64
	}
	plan := func(args ...string) map[string]planned {
		t.Helper()
		all := map[string]planned{}
		for _, v := range jsonLines[planned](t, l.must(append([]string{"plan", "--json"}, args...)...)) {
			all[v.View] = v
		}
		return all
	}
	is := func(got map[string]planned, want ...string) {
		t.Helper()
		var actions []string
		for _, name := range slices.Sorted(maps.Keys(got)) {
			actions = append(actions, name+" "+got[name].Action)
		}
		if !slices.Equal(actions, want) {
			t.Errorf("got %q\nwant %q: %+v", actions, want, got)
		}
	}
	before := l.rows("SHOW TABLES")
	is(plan(), "index_users_email unchanged", "index_users_phone unchanged", "users unchanged")

	changed := phoneView + "where = \"phone > 2\"\n"
	l.configure(source, program, mainSink, more, changed+"on_change = \"rebuild\"\n", emailView)
	got := plan("--rate", "10")
	is(got, "index_users_email unchanged", "index_users_phone rebuild", "more fill", "users end")
	if v := got["more"]; v.Rows != 30 || v.Seconds != 3 || v.Sink != "main" || v.Kind != "index" {
		t.Errorf("%+v", v)
	}
	l.configure(source, program, mainSink, more, changed, emailView)
	got = plan()
	is(got, "index_users_email unchanged", "index_users_phone refused", "more fill", "users end")
	if reason := got["index_users_phone"].Reason; !strings.Contains(reason, "after SIGHUP") ||
		!strings.Contains(reason, "`replicator rebuild index_users_phone -c ") {
		t.Errorf("the advice is %q", reason)
	}
	table := l.must("plan")
	for _, want := range []string{"VIEW ", "ACTION", "refused", "--rate"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if st := l.status("index_users_phone"); st.State != "running" {
		t.Errorf("the plan changed what runs: %+v", st)
	}
	l.expect("SHOW TABLES", before...)
	l.expect("SELECT COUNT(*) FROM more", "0")

	p.stop() // the saved state leads to the same plan
	got = plan()
	is(got, "index_users_email unchanged", "index_users_phone refused", "more fill", "users end")
	if reason := got["index_users_phone"].Reason; strings.Contains(reason, "SIGHUP") {
		t.Errorf("the advice is %q", reason)
	}
	l.configure(cellViews, "[views.x\n")
	if r := l.run("plan"); r.code != 2 || !strings.Contains(r.errors, filepath.Base(l.file())+":") || r.out != "" {
		t.Errorf("a file that doesn't parse: %+v", r)
	}
	l.configure(strings.Replace(cellViews, "[sinks.main]", "[sinks.main]\ntimeout = \"2s\"", 1),
		"[sinks.cache]\ntype = \"redis\"\nurl = \"redis://"+servertest.FreeAddress(t)+"/0\"\ntimeout = \"2s\"\n",
		"[views.cached]\nfrom = \"cell.users\"\nsink = \"cache\"\nkind = \"hash\"\nkey = \"u:{row_key}\"\nfields = [\"email\"]\n")
	if r := l.run("plan", "--json"); r.code != 1 || !strings.Contains(r.out, `"action":"unknown"`) ||
		strings.Count(r.out, "unchanged") != 3 {
		t.Errorf("a sink that is down: %+v", r)
	}
}
