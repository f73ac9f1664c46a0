package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// advised returns the statement that a finding tells the reader to run at a server, or "". The statement is at the
// beginning of the fix, or at the end of the detail about a table.
func advised(detail, fix string) string {
	if m := regexp.MustCompile(`^((?:GRANT|SET GLOBAL|ALTER TABLE|CONFIG SET|ACL SETUSER) .*?)` +
		`(?:$|, and set it in |, where |; |: )`).FindStringSubmatch(fix); m != nil {
		return m[1]
	}
	if m := regexp.MustCompile(`: (ALTER TABLE [^;]*)`).FindStringSubmatch(detail); m != nil {
		return m[1]
	}
	return ""
}

// The test runs the statements that check prints, round after round, until no finding has a statement.
func TestStatementsThatCheckAdvisesMendWhatItFound(t *testing.T) {
	t.Parallel()
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			settings := []string{"--binlog-format=MIXED", "--binlog-row-image=MINIMAL", "--binlog-row-metadata=MINIMAL",
				"--innodb-flush-log-at-trx-commit=2", "--max-allowed-packet=2097152"}
			l := newLab(t, servertest.Own(t, kind, settings...))
			redis, rdb := ownRedis(t, "--save", "", "--maxmemory", "1gb",
				"--maxmemory-policy", "allkeys-lru")
			for _, command := range [][]any{{"ACL", "SETUSER", "default", "resetkeys", "~replicator:views"},
				{"ACL", "SETUSER", "default", "-zadd", "-set"}} {
				if err := rdb.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			admin := administrator(t, rdb, redis)
			reader, keeper := l.database+"_r", l.database+"_k"
			l.account(l.server, reader)
			l.account(l.server, keeper, "SELECT ON "+l.database+".*")
			l.env["REDIS"] = "redis://" + redis.Addr()
			l.env["SINK"] = strings.Replace(l.env["DSN"], l.user+":", keeper+":", 1)
			l.env["DSN"] = strings.Replace(l.env["DSN"], l.user+":", reader+":", 1)
			l.exec("ALTER TABLE index_users_phone DROP KEY row_key")
			l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView, usersView, phoneView,
				cacheSink)
			given := adviceTaken(t, l, admin)
			for _, want := range []string{"GRANT SELECT, REPLICATION SLAVE", "GRANT CREATE", "ALTER, DROP", "SET GLOBAL binlog_format",
				"SET GLOBAL binlog_row_image", "SET GLOBAL binlog_row_metadata", "SET GLOBAL innodb_flush", "SET GLOBAL max_allowed",
				"ALTER TABLE", "ACL SETUSER", "CONFIG SET maxmemory-policy", "CONFIG SET appendonly"} {
				if !strings.Contains(given, want) {
					t.Errorf("%s was not advised, of\n%s", want, given)
				}
			}
			l.must("run", "--until-caught-up")
		})
	}
}

const cacheSink = redisSink + `
[views.emails]
from = "cell.users"
sink = "cache"
kind = "ranking"
key = "emails"
member = "{email}"
sum = "phone"
`

// administrator returns connections to a Redis as a user with all rights.
func administrator(t *testing.T, rdb *goredis.Client, s *servers.Server) *goredis.Client {
	t.Helper()
	if err := rdb.Do(t.Context(), "ACL", "SETUSER", "admin", "on", ">"+password, "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	admin := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Username: "admin", Password: password})
	t.Cleanup(func() { admin.Close() })
	return admin
}

// adviceTaken runs the statements that check advises until it advises none. It returns all statements.
func adviceTaken(t *testing.T, l *lab, rdb *goredis.Client) string {
	t.Helper()
	taken := map[string]int{} // by statement: the round in which it ran
	var all strings.Builder
	for round := range 10 {
		r := l.run("check", "--json")
		again := false
		for _, f := range jsonLines[struct{ What, Level, Detail, Fix string }](t, r.out) {
			s := advised(f.Detail, f.Fix)
			if s == "" {
				if f.Level == "fail" {
					t.Logf("%s: %s: %s", f.What, f.Detail, f.Fix)
				}
				continue
			}
			if before, was := taken[s]; was && before == round {
				continue // several findings may have the same fix
			} else if was {
				t.Fatalf("%s: %s: %s is advised though it was done", f.What, f.Detail, s)
			}
			taken[s], again = round, true
			fmt.Fprintln(&all, s)
			follow(t, l.db, rdb, s)
		}
		if !again {
			if r.code != 0 {
				t.Fatalf("check, with nothing left to do:\n%s%s", r.out, r.errors)
			}
			return all.String()
		}
	}
	t.Fatalf("check advises without an end:\n%s", all.String())
	return ""
}

// follow runs a statement at MySQL or Redis. PATTERN in the statement is a placeholder, which follow replaces.
func follow(t *testing.T, db *sql.DB, rdb *goredis.Client, statement string) {
	t.Helper()
	if first, _, _ := strings.Cut(statement, " "); first != "ACL" && first != "CONFIG" {
		execAll(t, db, statement)
		return
	}
	var words []any
	for _, w := range strings.Fields(strings.ReplaceAll(statement, "PATTERN", "emails*")) {
		words = append(words, w)
	}
	if err := rdb.Do(t.Context(), words...).Err(); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// If a run could not create the state directory, check must say so. check itself creates nothing.
func TestCheckFindsAStateDirectoryThatCanNotBeMade(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.Own(t, servers.MySQL))
	for _, path := range []string{"/proc/nope/x", l.file()} {
		l.configure(source, strings.Replace(program, `"state"`, `"`+path+`"`, 1), mainSink, emailView)
		r := l.run("check")
		if r.code != exitFailed || !strings.Contains(r.out, "checkpoint store: checkpoint: the state directory "+path) ||
			!strings.Contains(r.out, "set checkpoint.path to a directory") {
			t.Errorf("exit status %d:\n%s%s", r.code, r.out, r.errors)
		}
	}
	l.configure(source, program, mainSink, emailView)
	l.must("check")
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(l.file()), "state*")); err != nil || len(left) > 0 {
		t.Errorf("check left %v, %v", left, err)
	}
}

// The program makes statements from the configuration, such as with types and parameters. The server's message about
// such a statement is shown, because it contains no values of rows.
func TestCheckShowsWhatTheServerSaysOfTypesAndParameters(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE o (id BIGINT PRIMARY KEY, city VARCHAR(20))")
	view := "[tables.o]\nkey = \"id\"\n[views.a]\nfrom = \"o\"\nsink = \"main\"\nkind = \"row\"\ncreate = true\n" +
		"fields = [\"city\"]\ntypes = { city = \"VARCHAAR(20)\" }\n"
	for _, c := range []struct{ sink, says string }{
		{mainSink, "creating table a from its types: error"}, {mainSink, "'VARCHAAR"},
		{strings.Replace(mainSink, "${DSN}", "${DSN}?nonsense=3", 1), "Unknown system variable 'nonsense'"},
	} {
		l.configure(source, program, c.sink, view)
		if r := l.run("check"); r.code != exitFailed || !strings.Contains(r.out, c.says) {
			t.Errorf("exit status %d:\n%s%s", r.code, r.out, r.errors)
		}
	}
}
