package mysql

import (
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Lanes write at the same time. If one lane turns off the checks of a foreign key, another lane's transaction may have
// failed because of that key already. The other lane must try again, and not make its row a dead letter.
func TestARowThatAForeignKeyRefusedIsTriedAgainWhoeverFoundThatOut(t *testing.T) {
	child := &keeper{}
	target := &Target{kept: []*keeper{child}, server: newServer("10.11.19-MariaDB", 0)}
	before := target.unordered()
	child.unordered.Store(true) // by another lane
	refused := &mysql.MySQLError{Number: errNoParent}
	if again, err := target.unorder(t.Context(), refused, before); err != nil || !again {
		t.Errorf("the transaction is tried again: %t, %v", again, err)
	}
	if again, err := target.unorder(t.Context(), refused, target.unordered()); err != nil || again {
		t.Errorf("it is tried again for ever: %t, %v", again, err)
	}
}

// MySQL 5.7 takes neither SET STATEMENT nor a hint, so such a server's refusal is the row's own.
func TestForeignKeyChecksAreTurnedOffAsTheServerCanDoIt(t *testing.T) {
	for _, c := range []struct {
		version, begin string
		unchecked      bool
	}{
		{"9.7.4", "INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ ", true},
		{"8.0.15", "INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ ", true},
		{"10.11.19-MariaDB-log", "SET STATEMENT foreign_key_checks = 0 FOR INSERT ", true},
		{"5.7.22-log", "", false},
	} {
		s := newServer(c.version, 1<<20)
		if got := s.hasUnchecked(); got != c.unchecked {
			t.Errorf("%s: a statement can skip checks: %t, want %t", c.version, got, c.unchecked)
		}
		if !c.unchecked {
			continue
		}
		k, w := &keeper{}, &writer{server: s}
		k.unordered.Store(true)
		w.beginWrite(k, "INSERT")
		if got := string(w.text); got != c.begin {
			t.Errorf("%s: the statement begins with %q, want %q", c.version, got, c.begin)
		}
	}
}
