package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/service"
)

// notesTable has several rows for each cell. Its keys are equal if they differ only in case, accents or trailing
// spaces.
const notesTable = "CREATE TABLE notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL, " +
	"c VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, v BIGINT NOT NULL, body VARCHAR(100) NOT NULL, UNIQUE (k, c, v))"

const noteViews = `
[tables.notes]
key = "k"
column = "c"
version = "v"
body = "body"
codec = "json"

[views.note]
from = "notes.base"
sink = "main"
kind = "row"
key = { k = "$k" }
fields = ["tag"]
create = true
types = { tag = "VARCHAR(50)" }

[views.note_by_tag]
from = "notes.base"
sink = "main"
kind = "index"
fields = ["tag"]
create = true
types = { tag = "VARCHAR(50)" }

[views.note_tags]
from = "notes.base"
sink = "main"
kind = "counter"
group = ["tag"]
create = true
types = { tag = "VARCHAR(50)", cnt = "BIGINT" }
`

// spellings has the variants of each of several keys.
var spellings = [][]string{{"abc", "ABC", "Abc ", "äbc"}, {"zz", "ZZ"}, {"かな", "カナ"},
	{"straße", "STRASSE"}, {"7", "7 "}}

// note returns the INSERT of a version.
func note(key string, version int64) string {
	return fmt.Sprintf(`INSERT INTO notes(k, c, v, body) VALUES ('%s', 'base', %d, '{"tag": "t%d"}')`,
		key, version, version%3)
}

func (l *lab) expectNotes() {
	l.t.Helper()
	const newest = " FROM notes a JOIN (SELECT k, MAX(v) v FROM notes WHERE c = 'base' GROUP BY k) n ON a.k = n.k AND a.v = n.v WHERE a.c = 'base'"
	const tag = "JSON_UNQUOTE(JSON_EXTRACT(a.body, '$.tag'))"
	want := l.rows("SELECT a.k, " + tag + newest + " ORDER BY BINARY a.k")
	l.expect("SELECT k, tag FROM note ORDER BY BINARY k", want...)
	l.expect("SELECT k, tag FROM note_by_tag ORDER BY BINARY k", want...)
	l.expect("SELECT tag, cnt FROM note_tags ORDER BY tag",
		l.rows("SELECT "+tag+" t, COUNT(*)"+newest+" GROUP BY t ORDER BY t")...)
}

// Keys that are equal in the source are one cell. The newest version of all key variants counts, and the view shows
// that version's variant.
func TestVersionsOfAKeyInSeveralSpellingsAreOneCell(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		l.exec(notesTable)
		version := int64(0)
		for _, of := range spellings { // the newest version is neither the first nor the last one
			for i, key := range of {
				version += 10
				l.exec(note(key, version-int64(i%2)*15))
			}
		}
		l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, noteViews)
		p := l.running()
		l.caughtUp()
		l.expectNotes()
		l.must("verify")
		if out := l.must("check"); !strings.Contains(out, "rows spell key") {
			t.Errorf("check says nothing of spellings:\n%s", out)
		}
		for _, e := range jsonLines[service.Explanation](t, l.must("explain", "note", "ABC", "--json")) {
			if shown := e.Key == "Abc "; e.Exists != shown || e.Holds != service.AsExpected || !shown &&
				!strings.Contains(e.Why, "spells the key Abc , so") {
				t.Errorf("explain: %+v", e)
			}
		}

		for _, step := range []string{
			note("ABC", 1000), note("abc", 900), note("abc",
				1100), "DELETE FROM notes WHERE v = 1100", "DELETE FROM notes WHERE v = 1",
			"UPDATE notes SET k = 'aBc' WHERE v = 1000", "DELETE FROM notes WHERE BINARY k = 'aBc'",
			"DELETE FROM notes WHERE k = 'zz'", note("zZ", 5), note("ZZ", 4),
			`INSERT INTO notes(k, c, v, body) VALUES ('New', 'base', 1, '{"tag": "a"}'), ('nEW', 'base', 3, '{"tag": "b"}'), ('new', 'base', 2, '{"tag": "c"}')`,
			"INSERT INTO notes(k, c, v, body) SELECT 'kANA', 'other', 1, '{}'",
		} {
			l.exec(step)
			l.caughtUp()
			l.expectNotes()
			if t.Failed() {
				t.Fatal("after", step)
			}
		}
		l.must("verify")

		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() { l.respell(w) })
		}
		l.must("rebuild", "note", "note_by_tag", "note_tags")
		writers.Wait()
		l.caughtUp()
		l.expectNotes()
		l.must("verify")
		p.stop()

		l.respell(0) // while the program is stopped
		l.exec("DELETE FROM note WHERE tag = 't1'")
		l.must("run", "--until-caught-up")
		l.must("verify", "--repair")
		l.expectNotes()
		l.must("verify")
	})
}

// A view that merges cells has one key for all of them. If their newest rows use different variants of the key, the
// view must fail, so that readers never see two partial rows.
func TestViewsThatWouldMergeCellsOfTwoSpellingsAreRefused(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(notesTable, note("abc", 1), note("other", 1),
		"INSERT INTO notes(k, c, v, body) VALUES ('abc', 'more', 1, '{\"size\": 1}')")
	merged := strings.NewReplacer("[views.note]", "[views.merged]", `"notes.base"`, `["notes.base", "notes.more"]`,
		`["tag"]`, `["tag", "size"]`, "types = {", `types = { size = "INT",`)
	view, _, _ := strings.Cut(noteViews[strings.Index(noteViews, "[views.note]"):], "[views.note_by_tag]")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, noteViews, merged.Replace(view))
	p := l.running()
	l.caughtUp()
	l.exec(note("ABC", 2))
	l.failsWith("merged", "notes.base ABC", "notes.more abc", "Write the key")
	l.caughtUp("note", "note_by_tag", "note_tags")
	l.expectNotes()
	p.stop()

	l.exec("INSERT INTO notes(k, c, v, body) VALUES ('ABC', 'more', 2, '{\"size\": 2}')")
	p = l.running()
	l.caughtUp()
	l.expect("SELECT k, tag, size FROM merged ORDER BY k", "ABC t2 2", "other t1 NULL")
	l.must("verify")
	p.stop()
}

// respell writes and deletes versions of keys in all their variants. Each writer uses different versions.
func (l *lab) respell(writer int) {
	random := rand.New(rand.NewPCG(uint64(writer), 1))
	for i := range 150 {
		of := spellings[random.IntN(len(spellings))]
		statement := strings.Replace(note(of[random.IntN(len(of))], int64(2000+random.IntN(400)*10+writer)),
			"INSERT", "INSERT IGNORE", 1)
		if i%3 == 2 {
			statement = fmt.Sprintf("DELETE FROM notes WHERE k = '%s' ORDER BY v DESC LIMIT %d", of[0], random.IntN(4))
		}
		if _, err := l.db.ExecContext(l.t.Context(), statement); err != nil && !strings.Contains(err.Error(), "Deadlock") {
			l.t.Errorf("%s: %v", statement, err)
		}
	}
}
