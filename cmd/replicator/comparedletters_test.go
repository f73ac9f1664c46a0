package main

import (
	"fmt"
	"testing"

	"replicator/internal/servers/servertest"
)

// A statement in the binlog doesn't tell that the rows of dead letters were corrected or deleted. The program must find
// out and remove the letters.
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

// The newest row of a cell contributes nothing, and a statement deletes it. The remaining row is dead, but the binlog
// doesn't mention it. The view itself needs no repair, but the row must get a dead letter.
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
	l.caughtUp() // this also waits for the comparison
	if got := l.letters(); len(got) != 1 || got[0].Version != 1 {
		t.Errorf("the letters are %+v, not that of version 1", got)
	}
	p.stop()
}
