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
