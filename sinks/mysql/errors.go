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

// Messages of servers may quote values ("Duplicate entry '…'"), which must not reach a log. Those of these errors
// don't.
var plainMessages = map[uint16]bool{
	1040: true, 1044: true, 1045: true, 1049: true, 1053: true, 1054: true, 1068: true, 1072: true, 1091: true, 1114: true,
	1142: true, 1143: true, 1146: true, 1193: true, 1205: true, 1213: true, 1227: true, 1290: true, 1317: true, 1364: true,
	1370: true, 1665: true, 1698: true, 1792: true, 1820: true, 1836: true, 1862: true, 3024: true, 3108: true, 3118: true,
	3959: true,
}

// fatalErrors are those that last until somebody acts.
var fatalErrors = map[uint16]bool{
	1044: true, 1045: true, 1049: true, 1054: true, 1136: true, 1142: true, 1143: true, 1146: true, 1227: true, 1364: true,
	1370: true, 1665: true, 1698: true, 1820: true, 1862: true, 3118: true,
}

// dataErrors are those that a value causes, in words that don't show it.
var dataErrors = map[uint16]string{
	1048: "NULL in a column that is NOT NULL",
	1062: "another row has the same unique key",
	1118: "the row is too large",
	1153: "the row is larger than max_allowed_packet",
	1264: "a number is out of the column's range",
	1265: "a value doesn't fit the column",
	1292: "a date or time is not valid",
	1300: "a text is not valid in the column's character set",
	1366: "a value doesn't fit the column's type or character set",
	1406: "a value is too long for the column",
	1411: "a value can't be converted to the column's type",
	1452: "a foreign key's row is missing",
	1526: "no partition takes the value",
	1644: "a trigger refused the row",
	1690: "a number is out of range",
	3140: "a text is not valid JSON",
	3141: "a text is not valid JSON",
	3156: "a JSON value doesn't fit the column's type",
	3819: "a CHECK constraint refuses the row",
	4025: "a CHECK constraint refuses the row",
}

// dataReason is why the server refused a statement because of a value in it; "" if that is not the reason.
func dataReason(err error) string {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		if reason, ok := dataErrors[e.Number]; ok {
			return fmt.Sprintf("%s (error %d)", reason, e.Number)
		}
	}
	if errors.Is(err, mysql.ErrPktTooLarge) {
		return "the row is larger than max_allowed_packet"
	}
	return ""
}

const (
	noDatabase   = 1049
	noTable      = 1146
	errDuplicate = 1062
	errDeadlock  = 1213
	errLockWait  = 1205 // for a row's lock, or for a table's
)

// transient reports whether the transaction was chosen to fail so that another could go on: it may be repeated at once.
// One that waited for a lock in vain may not: who holds it so long is somebody else, and that the views wait for him
// has to show.
func transient(err error) bool { return is(err, errDeadlock) }

// refuses reports whether the server refuses what it was sent: by a statement of its own each it says which.
func refuses(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && !transient(err) || errors.Is(err, mysql.ErrPktTooLarge)
}

func is(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	for _, n := range numbers {
		if e.Number == n {
			return true
		}
	}
	return false
}

// serverErrors are those that a server answers a statement with whatever the table is: it shuts down, is read-only,
// full, or gives up a transaction for another one.
var serverErrors = []uint16{errDeadlock, 1021, 1030, 1040, 1045, 1053, 1114, 1203, 1226, 1290, 1317, 1698, 1792, 1820,
	1836, 1862, 1969, 3024, 3118}

// ofTable reports whether the server refuses a statement because of the table that it is about.
func ofTable(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && !slices.Contains(serverErrors, e.Number)
}

const takesNoWrites = "the server takes no writes: read_only is on there, as on a replica"

// classify says what was being done when err happened, hides what might be a value, and marks what only a person can
// mend. Errors of the context and of the connection are temporary like all others.
func classify(err error, doing string) error {
	if err == nil || replicator.IsFatal(err) {
		return err
	}
	if errors.Is(err, mysql.ErrInvalidConn) {
		return fmt.Errorf("%s: the connection to the server was lost, or there was no answer within the sink's timeout: %w",
			doing, err)
	}
	if errors.Is(err, driver.ErrBadConn) { // what RejectReadOnly makes of the server's refusal, on new connections, too
		return fmt.Errorf("%s: %s", doing, takesNoWrites) // it has answered: no connection was lost
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	text := fmt.Errorf("%s: error %d (%s)", doing, e.Number, e.SQLState[:])
	if plainMessages[e.Number] {
		text = fmt.Errorf("%w: %s", text, e.Message)
	} else if reason := dataErrors[e.Number]; reason != "" {
		text = fmt.Errorf("%w: %s", text, reason)
	}
	if e.Number == errLockWait {
		return fmt.Errorf("%w: another session holds the lock: SHOW ENGINE INNODB STATUS and SHOW PROCESSLIST at the "+
			"sink's server show whose it is", text)
	}
	if e.Number == 1040 {
		return curable{text, "raise max_connections there, or see in SHOW PROCESSLIST whose connections they are"}
	}
	if is(err, 1045, 1698) {
		return replicator.Fatal(curable{text, "correct user and password in the sink's dsn, and have the file read " +
			"again (SIGHUP), or mend the account"})
	}
	if is(err, 1217, 1451) {
		return fmt.Errorf("%w: another table's foreign key holds a row that has to go: drop that key, or make it "+
			"ON DELETE CASCADE or SET NULL", text)
	}
	if e.Number == 1146 && ownTable(e.Message) { // it was there when the views were opened
		return fmt.Errorf("%w: %w", text, replicator.ErrSinkLost)
	}
	if fatalErrors[e.Number] {
		return replicator.Fatal(text)
	}
	return text
}

// curable is an error that a person can mend, and how.
type curable struct {
	error
	cure string
}

func (e curable) Error() string { return e.error.Error() + ": " + e.cure }
func (e curable) Unwrap() error { return e.error }

// granting names the GRANT in what classify said of err, where the user lacks a right that views need in a database.
func (s *Sink) granting(ctx context.Context, said, err error, database string) error {
	if is(err, 1044, 1142, 1143) {
		return curable{said, s.grant(ctx, database, "SELECT, INSERT, UPDATE, DELETE")}
	}
	return said
}

// ownTable reports whether the server's message "Table 'database.name' doesn't exist" is about a table of the sink's
// own.
func ownTable(message string) bool {
	return slices.ContainsFunc([]string{viewsTable, stateTable, locksTable, deadTable}, func(name string) bool {
		return strings.Contains(message, "."+name+"'")
	})
}
