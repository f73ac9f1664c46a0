package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

const (
	noDatabase   = 1049
	noTable      = 1146
	errDuplicate = 1062
	errDeadlock  = 1213
	errLockWait  = 1205

	errTableChanged = 1412 // the table was altered since the snapshot began
)

// transient reports whether a transaction ended in a deadlock, so that it may be repeated at once. A lock timeout is
// not transient: another program holds the lock for long, and the operator must see that.
func transient(err error) bool { return is(err, errDeadlock) }

// refuses reports whether the server, or the driver, refused a statement. A deadlock doesn't count.
func refuses(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && !transient(err) || errors.Is(err, mysql.ErrPktTooLarge)
}

// is reports whether err is a server's error with one of the numbers. An error from SIGNAL doesn't count, because a
// trigger may give it any number.
func is(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) || signalled(e) {
		return false
	}
	for _, n := range numbers {
		if e.Number == n {
			return true
		}
	}
	return false
}

// ofTable reports whether a server's error concerns the statement's table or rows, and not the server or the user.
func ofTable(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	b := faultOf(e).blame
	return b != serverFault && b != userFault
}

const takesNoWrites = "the server accepts no writes: read_only is on there, as on a replica"

// classify adds to err what was being done, hides texts that may quote values, and marks errors that only the operator
// can fix as fatal. All other errors are temporary, including those of the context and of the connection.
func classify(err error, doing string) error {
	if err == nil || replicator.IsFatal(err) {
		return err
	}
	if errors.Is(err, mysql.ErrInvalidConn) {
		return fmt.Errorf("%s: the connection to the server was lost, or there was no answer within the sink's timeout: %w",
			doing, err)
	}
	if errors.Is(err, driver.ErrBadConn) { // RejectReadOnly turns a refusal to write into this error
		// The message leaves err out: its text says that the connection is bad, which is wrong here.
		return fmt.Errorf("%s: %s", doing, takesNoWrites)
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	text := fmt.Errorf("%s: error %d (%s)", doing, e.Number, e.SQLState[:])
	known := faultOf(e)
	if known.plain {
		text = fmt.Errorf("%w: %s", text, e.Message)
	} else if known.means != "" {
		text = fmt.Errorf("%w: %s", text, known.means)
	}
	if is(err, errLockWait) {
		return fmt.Errorf("%w: another session holds the lock. Find it by SHOW ENGINE INNODB STATUS and SHOW "+
			"PROCESSLIST on the sink's server", text)
	}
	if is(err, 1040) {
		return curable{text, "raise max_connections on that server, or find out by SHOW PROCESSLIST " +
			"who holds the connections"}
	}
	if is(err, 1045, 1698) {
		return replicator.Fatal(curable{text, "correct user and password in the sink's dsn and reload the file " +
			"(SIGHUP), or fix the account"})
	}
	if is(err, 1217, 1451) {
		return fmt.Errorf("%w: another table's foreign key prevents the deletion of a row. Drop that key, or make it "+
			"ON DELETE CASCADE or SET NULL", text)
	}
	if is(err, 1146) && ownTable(e.Message) { // another program dropped the table since the views were opened
		return fmt.Errorf("%w: %w", text, replicator.ErrSinkLost)
	}
	if known.blame == userFault || known.blame == tableFault {
		return replicator.Fatal(text)
	}
	return text
}

// curable is an error that the operator can fix, with the way to do so.
type curable struct {
	error
	cure string
}

func (e curable) Error() string { return e.error.Error() + ": " + e.cure }
func (e curable) Unwrap() error { return e.error }

// withGrant returns the error `said`. If `err` says that the user lacks a right in a database, withGrant adds the
// missing GRANT statement. `said` is what classify returned for `err`.
func (s *Sink) withGrant(ctx context.Context, said, err error, database string) error {
	if is(err, 1044, 1142, 1143) {
		return curable{said, s.grant(ctx, database, "SELECT, INSERT, UPDATE, DELETE")}
	}
	return said
}

// ownTable reports whether the server's message "Table 'database.name' doesn't exist" concerns one of the sink's own
// tables.
func ownTable(message string) bool {
	return slices.ContainsFunc(ownNames, func(name string) bool {
		return strings.Contains(message, "."+name+"'")
	})
}
