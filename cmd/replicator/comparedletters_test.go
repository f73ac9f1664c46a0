package main

import (
	"fmt"
	"testing"

	"replicator/internal/servers/servertest"
)

// TestDeadLettersOfRowsThatAStatementChangedGo: the binlog doesn't say that their rows are mended, or gone.
func TestDeadLettersOfRowsThatAStatementChangedGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	p := l.running()
	for _, key := range []string{"a", "b", "c"} {
		l.put(key, 1, "{")
	}
	l.caughtUp()
	before := len(l.letters())
	l.session("SET SESSION binlog_format = 'STATEMENT'",
		"UPDATE cell SET body = '{\"email\": \"a@x.org\"}' WHERE row_key = 0x"+keyText("a"),
		"DELETE FROM cell WHERE row_key = 0x"+keyText("b"))
	eventually(t, func() error {
		after := len(l.letters())
		return as(before == 3*after, fmt.Sprintf("of %d letters %d are left", before, after))
	})
	l.caughtUp()
	if got := l.rows(emails); len(got) != 1 || got[0] != "a@x.org a" {
		t.Errorf("the index has %q", got)
	}
	p.stop()
}

// TestARowThatAStatementBringsBackHasItsDeadLetter: nothing was shown of the row that went, so the view needs no
// repair. The row that is left is dead, and the binlog says nothing of it.
func TestARowThatAStatementBringsBackHasItsDeadLetter(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(cellTable, emailTable)
	l.configure(source, program, mainSink, emailView)
	p := l.running()
	l.put("a", 1, "{")
	l.caughtUp()
	l.put("a", 2, "{}")
	l.caughtUp()
	if left := l.letters(); len(left) > 0 {
		t.Fatalf("letters of a row that shows nothing: %+v", left)
	}
	l.session("SET SESSION binlog_format = 'STATEMENT'", "DELETE FROM cell WHERE ref_key = 2")
	l.caughtUp() // it is compared
	if got := l.letters(); len(got) != 1 || got[0].Version != 1 {
		t.Errorf("the letters are %+v, not that of version 1", got)
	}
	p.stop()
}
