package main

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// shardedViews are views in a sink of three databases. They are an index whose entries move between databases, a row
// view whose rows don't move, and a counter. Another index is only in the first database.
const shardedViews = `
[views.index_users_email]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["email"]
shard_on = "email"

[views.users]
from = "cell.users"
sink = "main"
kind = "row"
key = { id = "$row_key" }
fields = ["username", "email", "phone"]
shard_on = "id"

[views.domain_count]
from = "cell.users"
sink = "main"
kind = "counter"
group = ["domain"]
shard_on = "domain"
` + phoneView

const domainTable = "CREATE TABLE domain_count (domain VARCHAR(100) PRIMARY KEY, cnt INT NOT NULL)"

// shardedLab is a lab with a sink of three databases.
type shardedLab struct {
	*lab
	server *servers.Server // the shards' server
	dbs    []*sql.DB
}

// newShardedLab returns a lab with shards on a server. Each shard has the tables.
func newShardedLab(t *testing.T, s *servers.Server, ddl ...string) *shardedLab {
	t.Helper()
	l := &shardedLab{lab: newBareLab(t, servertest.MySQL(t)), server: s}
	l.exec(cellTable)
	writer := l.database + "_w"
	l.account(s, writer)
	root := l.connect(s, "")
	for i := range 3 {
		name := l.shard(i)
		execAll(t, root, "CREATE DATABASE "+name, "GRANT ALL ON "+name+".* TO "+writer+"@'%'")
		t.Cleanup(func() {
			if s.Running() {
				_, _ = root.Exec("DROP DATABASE IF EXISTS " + name)
			}
		})
		db := l.connect(s, name)
		execAll(t, db, ddl...)
		l.dbs = append(l.dbs, db)
		l.env[fmt.Sprint("S", i)] = strings.Replace(l.dsn(s.Addr(), name), l.user+":", writer+":", 1)
	}
	l.configureShards(3, shardedViews)
	return l
}

func (l *shardedLab) shard(i int) string { return fmt.Sprintf("%s_s%d", l.database, i) }

// configureShards writes a configuration with the first n shards; more is added to [source].
func (l *shardedLab) configureShards(n int, views string, more ...string) {
	l.t.Helper()
	sink := "[sinks.main]\ntype = \"mysql\"\n[sinks.main.shards]\n"
	for i := range n {
		sink += fmt.Sprintf("s%d = \"${S%d}\"\n", i, i)
	}
	l.configure(source, strings.Join(more, "\n"), program, sink, views)
}

// users writes a version of twelve users' cells. With each version, their emails belong to other shards.
func (l *shardedLab) users(version int64) {
	l.t.Helper()
	for _, key := range userKeys {
		l.put(key, version, fmt.Sprintf(`{"username": "%s", "email": "%s%d@x.org", "phone": %d, "domain": "d%d"}`, key, key,
			version, version, version%2))
	}
}

var userKeys = strings.Split("abcdefghijkl", "")

// right fails the test unless each row is in its shard exactly once, and the rows have the emails of a version.
func (l *shardedLab) right(n int, version int64) {
	l.t.Helper()
	var emails, users, counts []string
	for i, db := range l.dbs[:n] {
		emails = append(emails,
			rowsOf(l.t, db, fmt.Sprintf("SELECT email FROM index_users_email WHERE CRC32(email) %% %d = %d", n, i))...)
		last := "ORD(RIGHT(id, 1))" // a key is 15 zero bytes and a letter
		users = append(users, rowsOf(l.t, db, fmt.Sprintf("SELECT email FROM users WHERE %s %% %d = %d", last, n, i))...)
		stray := rowsOf(l.t, db, fmt.Sprintf("SELECT email FROM index_users_email WHERE CRC32(email) %% %d <> %d "+
			"UNION ALL SELECT email FROM users WHERE %s %% %d <> %d UNION ALL SELECT domain FROM domain_count WHERE CRC32(domain) %% %d <> %d", n, i, last, n, i, n, i))
		if len(stray) > 0 {
			l.t.Errorf("shard %d holds what belongs elsewhere: %v", i, stray)
		}
		counts = append(counts,
			rowsOf(l.t, db, fmt.Sprintf("SELECT domain, cnt FROM domain_count WHERE CRC32(domain) %% %d = %d", n, i))...)
	}
	var want []string
	for _, key := range userKeys {
		want = append(want, fmt.Sprintf("%s%d@x.org", key, version))
	}
	slices.Sort(emails)
	slices.Sort(users)
	if !slices.Equal(emails, want) || !slices.Equal(users, want) {
		l.t.Errorf("the emails are\n%v and\n%v, and not\n%v", emails, users, want)
	}
	if want := fmt.Sprintf("d%d %d", version%2, len(userKeys)); !slices.Equal(counts, []string{want}) {
		l.t.Errorf("the counts are %v, and not %s", counts, want)
	}
	if n := rowsOf(l.t, l.dbs[0], "SELECT COUNT(*) FROM index_users_phone"); n[0] != fmt.Sprint(len(userKeys)) {
		l.t.Errorf("the view without a shard_on has %s entries", n[0])
	}
}

func TestAShardedSinkFromSchemaToVerify(t *testing.T) {
	t.Parallel()
	l := newShardedLab(t, servertest.MySQL(t))
	r := l.run("check")
	if r.code != 1 || !strings.Contains(r.out, "fail  view users, shard s2: ") ||
		!strings.Contains(r.out, "fail  view index_users_phone, shard s0: ") ||
		strings.Contains(r.out, "index_users_phone, shard s1") {
		t.Errorf("check of shards without tables: exit status %d\n%s", r.code, r.out)
	}
	statements := l.must("schema")
	for i, db := range l.dbs {
		comment := fmt.Sprintf("-- shard s%d, database %s\n", i, l.shard(i))
		if n := strings.Count(statements, comment); n != 3 && !(i == 0 && n == 4) {
			t.Fatalf("schema has %d statements for shard %d:\n%s", n, i, statements)
		}
		for statement := range strings.SplitSeq(statements, ";\n") {
			if strings.Contains(statement, comment) {
				execAll(t, db, statement)
			}
		}
	}
	l.must("check")
	l.users(1)
	l.must("run", "--until-caught-up")
	l.right(3, 1)
	p := l.running()
	l.users(2)
	l.users(3)
	l.caughtUp()
	l.right(3, 3)
	l.must("verify")

	// verify finds changes by hand in any shard, and a repair reverts them.
	stray := "INSERT INTO index_users_email (email, row_key) VALUES ('x@x.org', 0x" + keyText("a") +
		"), ('y@x.org', 0x" + keyText("z") + ")"
	execAll(t, l.dbs[2], stray,
		"INSERT IGNORE INTO users (id, email) VALUES (0x"+keyText("a")+", 'a3@x.org'), (0x"+keyText("b")+", 'b3@x.org'), (0x"+keyText("c")+", 'c3@x.org')")
	for _, db := range l.dbs {
		execAll(t, db, "DELETE FROM index_users_email WHERE email = 'd3@x.org'")
	}
	// a, b and c belong to shards 1, 2 and 0
	for view, want := range map[string][3]int64{"index_users_email": {1, 1, 1}, "users": {0, 2, 0}} {
		r := l.run("verify", "--json", view)
		found := jsonLines[struct{ Missing, Stale, Extra int64 }](t, r.out)
		if r.code != 3 || len(found) != 1 || [3]int64{found[0].Missing, found[0].Stale, found[0].Extra} != want {
			t.Errorf("verify %s: exit status %d, %+v, and not %v\n%s", view, r.code, found, want, r.errors)
		}
	}
	if text := l.must("explain", "index_users_email", keyText("a")); !strings.Contains(text, "stale in shard s2;") {
		t.Errorf("explain says\n%s", text)
	}
	l.must("verify", "--repair")
	l.must("verify")
	l.right(3, 3)

	// Entries that move all the time are not counted as differences.
	verified := make(chan result, 1)
	go func() { verified <- l.run("verify", "index_users_email") }()
	version := int64(3)
	for r := (result{code: -1}); r.code < 0; {
		version++
		l.users(version)
		select {
		case r = <-verified:
			if r.code != 0 {
				t.Errorf("verify beside a writer: exit status %d\n%s%s", r.code, r.out, r.errors)
			}
		default:
		}
	}
	version++
	l.users(version)
	l.caughtUp()
	l.right(3, version)
	p.stop()
}

func TestAShardedSinkIsRebuiltInPlaceAlsoForAnotherNumberOfShards(t *testing.T) {
	t.Parallel()
	l := newShardedLab(t, servertest.MySQL(t), usersTable, emailTable, phoneTable, domainTable)
	l.users(1)
	l.must("run", "--until-caught-up")
	for _, db := range l.dbs {
		execAll(t, db, "DELETE FROM index_users_email WHERE email < 'e'", "UPDATE users SET email = 'planted'",
			"UPDATE domain_count SET cnt = cnt + 1", "INSERT INTO domain_count VALUES ('planted', 3)")
	}
	execAll(t, l.dbs[1], "INSERT INTO index_users_email (email, row_key) VALUES ('y@x.org', 0x"+keyText("z")+")")
	l.must("rebuild", "index_users_email", "users", "domain_count")
	l.right(3, 1)

	// With fewer shards, and then with more again, entries belong to other shards.
	l.configureShards(2, shardedViews)
	if r := l.run("run", "--until-caught-up"); r.code != exitFailed ||
		!strings.Contains(r.errors, "index_users_email: its definition changed") ||
		strings.Contains(r.errors, "view index_users_phone") {
		t.Errorf("with another number of shards: exit status %d, %s", r.code, r.errors)
	}
	l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText("l"))
	l.must("rebuild", "index_users_email", "users", "domain_count")
	l.put("l", 1, `{"username": "l", "email": "l1@x.org", "phone": 1, "domain": "d1"}`)
	l.must("run", "--until-caught-up")
	l.right(2, 1)
	anew := strings.ReplaceAll(shardedViews, "shard_on", "on_change = \"rebuild\"\nshard_on")
	l.configureShards(3, anew)
	p := l.running()
	l.users(2)
	l.reaches("index_users_email", "running")
	l.caughtUp()
	l.must("verify")
	l.right(3, 2)
	p.stop()
}

func TestAShardThatIsDownOrWasEmptied(t *testing.T) {
	t.Parallel()
	s := servertest.Own(t, servers.MySQL)
	l := newShardedLab(t, s, usersTable, emailTable, phoneTable, domainTable)
	l.users(1)
	p := l.running()
	l.caughtUp()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	l.users(2)
	if st := l.reaches("users", "retrying"); !strings.Contains(st.Error, "shard s") {
		t.Errorf("the error doesn't name the shard: %s", st.Error)
	}
	l.users(3)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.caughtUp()
	l.right(3, 3)

	empty := func() {
		t.Helper()
		execAll(t, l.connect(s, ""), "DROP DATABASE "+l.shard(1), "CREATE DATABASE "+l.shard(1))
		execAll(t, l.dbs[1], "USE "+l.shard(1), usersTable, emailTable, phoneTable, domainTable)
	}
	empty()
	l.users(4)
	l.failsWith("users", "sink main", "replicator rebuild")
	if st := l.status("index_users_phone"); st.State == "failed" && !strings.Contains(st.Error, "shard") {
		t.Errorf("the view of the first shard alone: %+v", st)
	}
	l.remedied("users")
	l.reaches("users", "running")
	l.caughtUp()
	l.right(3, 4)
	p.stop()

	l.configureShards(3, shardedViews, `on_lost = "rebuild"`)
	empty()
	l.users(5)
	p = l.running()
	eventually(t, func() error {
		st := l.status("users")
		return as(st.State == "running", "the views run again: "+st.State+" "+st.Error)
	})
	l.caughtUp()
	l.right(3, 5)
	p.stop()
}

// One shard of a counter was emptied. The counts in the other shards are still right, so a reset must not remove them.
func TestAResetAfterAShardWasEmptiedKeepsTheCountsOfTheOthers(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	l := newShardedLab(t, s, usersTable, emailTable, phoneTable, domainTable)
	domains := func(version int64) {
		for _, key := range userKeys {
			l.put(key, version, fmt.Sprintf(`{"email": "%s@x.org", "phone": 1, "domain": "%[1]s.org"}`, key))
		}
	}
	const counts = "SELECT domain, cnt FROM domain_count ORDER BY domain"
	domains(1)
	p := l.running()
	l.caughtUp()
	before := make([][]string, len(l.dbs))
	for i, db := range l.dbs {
		if before[i] = rowsOf(t, db, counts); len(before[i]) == 0 {
			t.Fatalf("shard %d has no counts", i)
		}
	}
	execAll(t, l.connect(s, ""), "DROP DATABASE "+l.shard(1), "CREATE DATABASE "+l.shard(1))
	execAll(t, l.dbs[1], "USE "+l.shard(1), usersTable, emailTable, phoneTable, domainTable)
	domains(2)
	l.failsWith("domain_count", "sink main: shard s1: ", "the view's mark in the sink is gone", "replicator rebuild")
	p.stop()
	p = l.running()
	l.failsWith("domain_count", "no longer has data of the view in shard s1, ", "replicator rebuild")
	p.stop()

	over := make(chan struct{})
	watched := make(chan string)
	go func() {
		for {
			for _, i := range []int{0, 2} {
				got, err := tryRows(t.Context(), l.dbs[i], counts)
				if err != nil || !slices.Equal(got, before[i]) {
					watched <- fmt.Sprintf("a reader of shard %d saw %v, not %v (%v)", i, got, before[i], err)
					return
				}
			}
			select {
			case <-over:
				close(watched)
				return
			default:
			}
		}
	}()
	for range 2 { // the second reset repeats an interrupted one
		l.must("checkpoint", "reset", "--yes")
	}
	l.must("run", "--until-caught-up")
	close(over)
	if saw := <-watched; saw != "" {
		t.Error(saw)
	}
	for i, db := range l.dbs {
		if got := rowsOf(t, db, counts); !slices.Equal(got, before[i]) {
			t.Errorf("shard %d has the counts %v, not %v", i, got, before[i])
		}
	}
	l.must("verify")
	l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText("a"))
	l.must("run", "--until-caught-up")
	l.must("verify")
}
