package mysql

import (
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Lanes write at the same time. If one lane turns off the checks of a foreign key, another lane's transaction may have
// failed because of that key already. The other lane must try again, and not make its row a dead letter.
func TestARowThatAForeignKeyRefusedIsTriedAgainWhoeverFoundThatOut(t *testing.T) {
	child := &keeper{}
	target := &Target{kept: []*keeper{child}, server: &server{mariaDB: true}}
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
