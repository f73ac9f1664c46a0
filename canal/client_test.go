package canal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestTheStatusVariablesOfAStatementTellItsClient(t *testing.T) {
	const flags, mode = "\x00\x00\x00\x00\x00", "\x01\x04\x00\x10\x00\x00\x00\x00\x00"
	for vars, want := range map[string]uint64{
		"": 0,
		flags + mode + "\x06\x03std\x04\x08\x00\xff\x00\xff\x00\x0c\x01d\x00": 8,
		flags + mode + "\x03\x02\x00\x01\x00\x04\x10\x09\x2d\x00\x08\x00\x81": 0x910,
		flags + mode + "\x02\x03std\x00\x04\x08\x00\xff\x00\xff\x00":          8,
		mode + "\x7f\x04\x08\x00\xff\x00\xff\x00":                             0,
		flags + mode + "\x06\xffstd\x04\x08\x00":                              0,
		mode + "\x04\x08":                                                     0,
		flags + mode[:5]:                                                      0,
	} {
		got, collation := clientOf([]byte(vars))
		if whole := strings.Contains(vars, mode); whole != (got == ansiQuotes|noBackslashEscapes) || collation != want {
			t.Errorf("%q: sql_mode %#x, collation %d, want %d", vars, got, collation, want)
		}
	}
}

// A server logs a statement as its client wrote it: in the client's character set, and by the rules of its sql_mode.
func TestStatementsAreReadAsTheirClientsWroteThem(t *testing.T) {
	const (
		latin1     = "SET NAMES latin1"
		swap       = " RENAME COLUMN v TO v_old, RENAME COLUMN u TO v"
		noEscapes  = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'"
		ansiQuotes = "SET SESSION sql_mode = 'ANSI_QUOTES'"
	)
	file := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(file, []byte("1\t2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name     string
		kind     string // "": every kind
		session  []string
		mentions string
	}{
		{name: "truncate", session: []string{latin1, "TRUNCATE TABLE \xf6l"}, mentions: "truncated"},
		{name: "white space of latin1", session: []string{latin1, "TRUNCATE\xa0TABLE\xa0\xf6l --\xa0it's"},
			mentions: "truncated"},
		{name: "drop, rewritten by the server", session: []string{latin1, "DROP TABLE IF EXISTS \xf6l, other"},
			mentions: "dropped"},
		{name: "rename", session: []string{latin1, "RENAME TABLE \xf6l TO \xf6l2"}, mentions: "renamed"},
		{name: "alter", session: []string{latin1, "ALTER TABLE \xf6l RENAME COLUMN gr\xf6\xdfe TO x"},
			mentions: "column größe"},
		{name: "procedure of another client", session: []string{latin1, "CREATE PROCEDURE p() TRUNCATE TABLE \xf6l",
			"SET NAMES utf8mb4", "CALL p()"}, mentions: "truncated"},
		{name: "replaced, written by the server", kind: "mariadb",
			session: []string{latin1, "CREATE OR REPLACE TABLE \xf6l AS SELECT 1 AS a"}, mentions: "replaced"},
		{name: "load data, written by the server", session: []string{latin1, "SET SESSION binlog_format = STATEMENT",
			"LOAD DATA INFILE '{file}' INTO TABLE \xf6l (id, v)"}, mentions: "binlog_format"},
		{name: "code page", session: []string{"SET NAMES cp1250", "TRUNCATE TABLE \xf6l"}, mentions: "truncated"},
		{name: "backslash within a code of sjis",
			session:  []string{"SET NAMES sjis", "ALTER TABLE plain COMMENT '\x95\x5c'," + swap},
			mentions: "column v was replaced"},
		{name: "backslash within a code of gbk", session: []string{"SET NAMES gbk",
			"ALTER TABLE plain COMMENT '\x81\x5c'," + swap}, mentions: "column v was replaced"},
		{name: "comment that begins with a tab", session: []string{"--\tit's maintenance\nTRUNCATE TABLE öl"},
			mentions: "truncated"},
		{name: "comment that begins with a control character", session: []string{"--\x01it's\nTRUNCATE TABLE öl --"},
			mentions: "truncated"},
		{name: "backslash that escapes nothing", session: []string{noEscapes, `ALTER TABLE öl COMMENT 'c:\',` + swap},
			mentions: "column v was replaced"},
		{name: "backslash in a name", session: []string{ansiQuotes, `ALTER TABLE öl ADD "b\" INT,` + swap},
			mentions: "column v was replaced"},
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range cases {
			if !strings.HasPrefix(string(s.Kind), c.kind) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				b := newBench(t, s)
				var tables []replicator.Table
				for _, name := range []string{"öl", "plain"} {
					b.exec("CREATE TABLE " + name + " (id INT PRIMARY KEY, v INT, u INT, größe INT)")
					tables = append(tables, replicator.Table{
						Name: name, Key: []string{"id"}, Columns: []string{"v", "größe"}})
				}
				src := b.source(tables...)
				x := b.read(b.open(src, b.latest(src)))
				var session []string
				for _, q := range c.session {
					session = append(session, strings.ReplaceAll(q, "{file}", file))
				}
				b.session(session...)
				err := x.failure()
				stops := replicator.IsFatal(err) || errors.Is(err, replicator.ErrUnlogged)
				if !stops || !strings.Contains(err.Error(), c.mentions) {
					t.Errorf("reading ended with %v, want that the binlog lacks something, with %q", err, c.mentions)
				}
			})
		}
	})
}
