package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestAViewAddedToTheFileIsFilledAndJoins(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.configure(source, program, mainSink, emailView)
	l.put("a", 1, `{"username": "ann", "email": "a@x.org", "phone": 1}`)
	l.must("run", "--until-caught-up")
	l.expect("SELECT COUNT(*) FROM users", "0")
	l.configure(cellViews)
	p := l.running()
	l.caughtUp()
	l.expect("SELECT username, phone FROM users", "ann 1")
	eventually(t, func() error { // once all views share a session, they have the same position
		a, b := l.status("users"), l.status("index_users_email")
		return as(a.State == "running" && b.State == "running" && a.Position == b.Position && len(joined(p)) == 3,
			"the views have joined")
	})
	l.put("b", 1, `{"email": "b@x.org"}`)
	l.caughtUp()
	p.stop()

	// A view that is removed from the file keeps its entries.
	l.configure(source, program, mainSink, emailView, phoneView)
	l.put("c", 1, `{"email": "c@x.org", "phone": 3}`)
	l.must("run", "--until-caught-up")
	l.expect("SELECT COUNT(*) FROM users", "2")
	l.expect("SELECT phone FROM index_users_phone ORDER BY 1", "1", "3")

	// A view with a changed definition is refused, without affecting others, unless on_change is "rebuild".
	changed := strings.Replace(phoneView, `fields = ["phone"]`, "where = \"phone > 2\"\nfields = [\"phone\"]", 1)
	l.configure(source, program, mainSink, changed, emailView)
	l.put("d", 1, `{"email": "d@x.org", "phone": 4}`)
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out,
		"fail  view index_users_phone: its definition changed") {
		t.Errorf("check of a changed view: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	if r := l.run("run", "--until-caught-up"); r.code != 1 || !strings.Contains(r.errors, "index_users_phone") ||
		!strings.Contains(r.errors, "on_change") {
		t.Errorf("a changed view: exit status %d, %s", r.code, r.errors)
	}
	l.expect("SELECT COUNT(*) FROM index_users_email WHERE email = 'd@x.org'", "1")
	l.expect("SELECT phone FROM index_users_phone ORDER BY 1", "1", "3")
	p = l.running()
	l.caughtUp("index_users_email")
	if st := l.status("index_users_phone"); st.State != "failed" ||
		!strings.Contains(st.Error, "change the definition back") {
		t.Errorf("status says %+v", st)
	}
	p.stop()

	// Another program with a view of the same name in this sink must not take the view over.
	other := strings.Replace(program, `path = "state"`, `path = "another"`, 1)
	l.configure(source, other, mainSink, changed, emailView)
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, "If another program maintains it") {
		t.Errorf("check by another program: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	l.configure(source, program, mainSink, emailView, changed, `on_change = "rebuild"`)
	l.must("check")
	l.must("run", "--until-caught-up")
	l.expect("SELECT phone FROM index_users_phone ORDER BY 1", "3", "4")
}

// A view merges several tables. Each of them has different fields.
func TestRowsOfSeveralTablesAreMerged(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE person (id BIGINT PRIMARY KEY, name VARCHAR(20), team INT)",
		"CREATE TABLE address (id BIGINT PRIMARY KEY, city VARCHAR(20))",
		"INSERT INTO person VALUES (1, 'Ann', 7), (2, 'Bob', 8)", "INSERT INTO address VALUES (1, 'Oslo'), (3, 'Rome')")
	view := func(fields string) string {
		return `
[tables.person]
key = "id"
[tables.address]
key = "id"
[views.people]
from = ["person", "address"]
sink = "main"
kind = "row"
create = true
key = { id = "id" }
fields = ` + fields + `
[views.team]
from = "person"
sink = "main"
kind = "index"
create = true
fields = ["team"]
`
	}
	l.configure(source, program, mainSink, view(`["name", "city", "town"]`))
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, "column town: none of the tables") {
		t.Fatalf("check of a column that no table has: %+v", r)
	}
	l.configure(source, program, mainSink, view(`{ name = "name", city = "city", loud = "=upper(city)" }`))
	l.must("check")
	l.must("run", "--until-caught-up")
	const people = "SELECT id, IFNULL(name, '-'), IFNULL(city, '-'), IFNULL(loud, '-') FROM people ORDER BY 1"
	l.expect(people, "1 Ann Oslo OSLO", "2 Bob - -", "3 - Rome ROME")
	l.exec("DELETE FROM person WHERE id = 1", "INSERT INTO address VALUES (2, 'Bern')", "DELETE FROM address WHERE id = 3")
	l.must("run", "--until-caught-up")
	l.expect(people, "1 - Oslo OSLO", "2 Bob Bern BERN")
	l.must("verify")
}

// The properties of bodies are unknown in advance, so a table with bodies may have what the other merged table lacks.
func TestARowAndABodyAreMerged(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE item (id BIGINT PRIMARY KEY, num INT)", "CREATE TABLE note (id BIGINT PRIMARY KEY, body JSON)",
		"INSERT INTO item VALUES (1, 7)", `INSERT INTO note VALUES (1, '{"name": "one"}')`)
	l.configure(source, program, mainSink, `
[tables.item]
key = "id"
[tables.note]
key = "id"
body = "body"
codec = "json"
[views.notes]
from = ["item", "note"]
sink = "main"
kind = "row"
create = true
key = { id = "id" }
fields = ["num", "name"]
`)
	l.must("check")
	l.must("run", "--until-caught-up")
	l.expect("SELECT id, num, name FROM notes", "1 7 one")
}

// joined returns the three views if the log says that they run together, and otherwise nil.
func joined(p *process) []string {
	for _, line := range strings.Split(p.Log(), "\n") {
		if strings.Contains(line, `"views":["index_users_email","users","index_users_phone"]`) {
			return []string{"index_users_email", "users", "index_users_phone"}
		}
	}
	return nil
}

func TestWhereAViewStarts(t *testing.T) {
	t.Parallel()
	s := servertest.Own(t, servers.MySQL)
	for start, want := range map[string][]string{
		"snapshot": {"b@x.org b", "c@x.org c"}, "earliest": {"b@x.org b", "c@x.org c"}, "latest": {"c@x.org c"},
	} {
		t.Run(start, func(t *testing.T) {
			l := newLab(t, s)
			l.configure(source, "start = \""+start+"\"\n", program, mainSink, emailView, usersView, phoneView)
			l.put("a", 1, `{"email": "a@x.org"}`)
			l.put("b", 1, `{"email": "b@x.org"}`)
			l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText("a"))
			p := l.running()
			l.caughtUp()
			l.put("c", 1, `{"email": "c@x.org"}`)
			l.caughtUp()
			l.expect(emails, want...)
			p.stop()
		})
	}
}

func TestASourceOfSeveralServers(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	second := servertest.Own(t, servers.MySQL)
	l.account(second, l.user, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
	execAll(t, l.connect(second, ""), "CREATE DATABASE shard_b")
	other := l.connect(second, "shard_b")
	execAll(t, other, cellTable)
	l.env["B"] = l.dsn(second.Addr(), "shard_b")
	l.configure("[source.shards]\na = \"${DSN}\"\nb = \"${B}\"\n", program, mainSink, emailView, usersView, phoneView)
	put := func(key, email string) {
		t.Helper()
		execAll(t, other, fmt.Sprintf("INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (0x%s, 'users', 1, '{\"email\": \"%s\"}')", keyText(key), email))
	}
	l.put("a", 1, `{"email": "a@x.org"}`)
	put("b", "b@x.org")
	l.must("check")
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a", "b@x.org b")
	p := l.running()
	l.put("c", 1, `{"email": "c@x.org"}`)
	put("d", "d@x.org")
	eventually(t, func() error {
		return as(len(l.rows(emails)) == 4, "both shards' cells are there")
	})
	if n := len(jsonLines[viewStatus](t, l.must("status", "--json"))); n != 6 {
		t.Errorf("status has %d lines for 3 views of 2 shards", n)
	}
	// An entry from one shard is not extra for the other. An entry from no shard is counted as extra once.
	if r := l.run("verify"); r.code != 0 {
		t.Errorf("verify: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	l.exec("INSERT INTO index_users_email (email, row_key) VALUES ('ghost@x.org', 'a ghost')")
	if r := l.run("verify", "--json", "index_users_email"); r.code != 3 ||
		!strings.Contains(r.out, `"checked":4,"missing":0,"stale":0,"extra":1,`) {
		t.Errorf("verify with an entry of nobody: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	l.must("verify", "--repair")
	l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c", "d@x.org d")
	type printed struct{ Source, Key string }
	seen := map[printed]bool{}
	for _, line := range jsonLines[printed](t, l.must("tail", "--from", "earliest", "--limit", "4")) {
		seen[line] = true
	}
	want := map[printed]bool{{"a", keyText("a")}: true, {"a", keyText("c")}: true, {"b", keyText("b")}: true, {"b", keyText("d")}: true}
	if !maps.Equal(seen, want) {
		t.Errorf("tail prints %v, want %v", seen, want)
	}
	// An error of one shard names that shard.
	execAll(t, other, "RENAME TABLE cell TO cell_away")
	eventually(t, func() error {
		return as(strings.Contains(l.must("status"), "source b: "), "status names the shard in the error")
	})
	if header, _, _ := strings.Cut(l.must("status"), "\n"); !strings.Contains(strings.ToLower(header), "source") {
		t.Errorf("the table of status has no source: %s", header)
	}
	for _, st := range jsonLines[viewStatus](t, l.must("status", "--json")) {
		if bad := st.Source == "b"; bad != strings.Contains(st.Error, "source b: ") || !bad && st.State != "running" {
			t.Errorf("status says %+v", st)
		}
	}
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, `"sink":`) && !strings.Contains(line, `"source":"a"`) &&
			!strings.Contains(line, `"source":"b"`) {
			t.Errorf("a line of the log does not say of which shard it is: %s", line)
		}
	}
	execAll(t, other, "RENAME TABLE cell_away TO cell")
	p.stop()
	before := l.saved()
	for _, c := range before {
		if c.Position == "" {
			t.Errorf("checkpoint %+v", c)
		}
	}
	// A position belongs to the log of one shard, so the shard must be named.
	if r := l.run("checkpoint", "set", "--pos", l.position(), "--yes"); r.code != 2 || !strings.Contains(r.errors, "--source a") {
		t.Errorf("a place of no shard: %+v", r)
	}
	if after := l.saved(); !slices.Equal(after, before) {
		t.Errorf("a command that was refused changed %+v to %+v", before, after)
	}
	at := l.position()
	l.must("checkpoint", "set", "--source", "a", "--pos", at, "--yes")
	for i, c := range l.saved() {
		if c.Source == "a" && c.Position != at || c.Source == "b" && c != before[i] {
			t.Errorf("checkpoint %+v, before %+v", c, before[i])
		}
	}
	// One shard is down, and the other one's changes are still applied.
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	p = l.running()
	l.put("e", 1, `{"email": "e@x.org"}`)
	eventually(t, func() error { return as(len(l.rows(emails)) == 5, "the shard that is up goes on") })
	p.stop()
}

// A transaction is never completely in memory. limits.memory bounds its memory, whatever its size.
func TestAHugeTransactionTakesBoundedMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	soak, size := os.Getenv("REPLICATOR_SOAK") != "", 256<<20
	if soak {
		size = 1 << 30
	}
	const most = 300 << 20 // resident bytes
	for name, row := range map[string]int{
		"of rows of 1 MiB, all but a few bytes of them in a property that no view wants": 1 << 20,
		"of rows of 1 KiB, all of them wanted in a second sink":                          1 << 10,
	} {
		t.Run(name, func(t *testing.T) {
			small := row < 1<<20
			if small && !soak {
				t.Skip("takes minutes: REPLICATOR_SOAK is not set")
			}
			s := servertest.Own(t, servers.MySQL, "--max-binlog-size=1G", "--innodb-redo-log-capacity=1G",
				"--innodb-buffer-pool-size=256M")
			l := newLab(t, s)
			if small {
				l.env["REDIS"] = "redis://" + servertest.Own(t, servers.Redis7).Addr()
				l.configure(cellViews, paddedView)
			}
			l.program = built // the race detector needs additional memory
			p := l.running()
			l.caughtUp()
			rows := size / row
			l.session("SET SESSION cte_max_recursion_depth = 10000000",
				fmt.Sprintf("INSERT INTO cell (row_key, column_name, ref_key, body) "+
					"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "+
					"SELECT UNHEX(LPAD(HEX(i), 32, '0')), 'users', 1, CONCAT('{\"email\": \"', i, '@x.org\", \"pad\": \"', REPEAT('x', %d), '\"}') FROM n", rows, row))
			end := l.position()
			for minutes := 0; l.run("wait", "--pos", end, "--timeout", "1m").code != 0; minutes++ {
				if st := l.status("users"); st.State != "running" || minutes == 30 {
					t.Fatalf("after %d minutes it is %s: %s", minutes, st.State, st.Error)
				}
			}
			l.expect("SELECT COUNT(*) FROM index_users_email", strconv.Itoa(rows))
			peak := processMemory(t, p.Pid(), "VmHWM:")
			t.Logf("a transaction of %d MiB: %d MiB resident at most", size>>20, peak>>20)
			if peak > most {
				t.Errorf("%d MiB resident for a transaction of %d MiB", peak>>20, size>>20)
			}
			p.stop()
		})
	}
}

const paddedView = redisSink + `
[views.padded]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "u:{$row_key}"
fields = ["email", "pad"]
`

// processMemory returns a size of a process in bytes. field names the line in /proc/PID/status.
func processMemory(t *testing.T, pid int, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), field)
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestTheDemoRunsAndVerifies(t *testing.T) {
	l := &lab{t: t, dir: t.TempDir(), program: built}
	servertest.MySQL(t) // skips the test if the machine can't run a server
	r := l.command("demo", "--rate", "100", "--duration", "2s")
	if r.code != 0 || !strings.Contains(r.out, "Verified: ") || !strings.Contains(r.out, "all 17 tables") {
		t.Errorf("exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	left, err := os.ReadDir(l.dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v (%v)", left, err)
	}
}
