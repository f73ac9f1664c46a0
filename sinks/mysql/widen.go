package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/config"
)

// If a source's column gets wider (VARCHAR(10) becomes VARCHAR(100)), the first longer value does not fit the view's
// column. If the program made the view's column (create = true), the program widens the column and applies the value,
// unless the server would have to copy a large table. Otherwise the value is a dead letter, whose reason names the
// ALTER TABLE.

// smallTable is how many rows a table may have for its columns to be widened even if the server must copy the table.
const smallTable = 10_000

// misfitError is the error for a value of the right kind that doesn't fit its column.
type misfitError struct {
	column *column
	why    string
}

func (e misfitError) Error() string { return e.why + " does not fit " + e.column.declared }

// widening caches how to widen columns that were too narrow for a value. An answer expires after askAgain.
type widening struct {
	mu    sync.Mutex
	found map[string]widened // by view and column
}

type widened struct {
	statement string // the ALTER TABLE that widens the column; "" if the source's column is not wider
	expires   time.Time
}

// askAgain is how long the answer about a column is cached, so that many values that don't fit cause only one query.
const askAgain = time.Second

// makeRoom handles the error of a value that did not fit a column. If the source's column is wider now, and the program
// made the view's column, makeRoom widens the view's column. `again` is the error with which Apply must end: the column
// was widened, so the view must be opened again, or widening failed. If again is nil, `reason` says why the value is
// rejected: it is `err`, with the ALTER TABLE if one would help.
func (t *Target) makeRoom(ctx context.Context, k *keeper, err error) (reason, again error) {
	var misfit misfitError
	if !errors.As(err, &misfit) || misfit.column == k.version || k.ledger && misfit.column == k.amount() {
		return err, nil
	}
	w := &t.sink.widening
	w.mu.Lock()
	defer w.mu.Unlock()
	name := k.view.Name + "\x00" + misfit.column.name
	found := w.found[name]
	if time.Now().After(found.expires) {
		now, failed := definition(ctx, t.sink.db, k.table)
		// If the definition changed, a concurrent batch or another program has altered the table.
		if failed == nil && k.definition != "" && now != k.definition {
			return nil, k.altered()
		}
		found.statement = ""
		if failed == nil {
			found.statement, failed = t.sink.widen(ctx, k.view, k.table, now, misfit.column, t.sink.origins(t.source))
		}
		if failed == nil && found.statement != "" && misfit.column.isOurs() && settingsOf(k.view).Create {
			if done, failed := t.sink.widenOwn(ctx, k, found.statement); failed != nil {
				return nil, failed
			} else if done {
				return nil, k.altered()
			}
		}
		found.expires = time.Now().Add(askAgain)
		if w.found == nil {
			w.found = map[string]widened{}
		}
		w.found[name] = found
	}
	if found.statement == "" {
		return err, nil
	}
	return fmt.Errorf("%w: the source's column is wider now. Run %s, then `replicator deadletters retry`", err,
		found.statement), nil
}

// widen returns the ALTER TABLE that makes a view's column as wide as the source's column is now; "" if the source's
// column is not wider, or if the configuration names the type. All other attributes of the column stay.
func (s *Sink) widen(ctx context.Context, v *replicator.View, table, definition string, c *column, from *origins) (
	string, error,
) {
	uses := usesOf(v)
	i := slices.IndexFunc(uses, func(u use) bool { return strings.EqualFold(u.Name, c.name) })
	if i < 0 || uses[i].role == ofSum || uses[i].role == ofVersion || settingsOf(v).Types[uses[i].Name] != "" {
		return "", nil
	}
	d := declarer{sink: s, view: v, from: from}
	if measured, err := d.measured(ctx, uses[i].Field); err != nil || !measured {
		return "", err
	}
	typ, err := d.sourceType(ctx, uses[i].Field, uses[i].role)
	if err != nil || typ == "" {
		return "", err
	}
	typ, _, _ = strings.Cut(typ, " CHARACTER SET ")
	if typ = strings.ToLower(typ); !wider(c, typ) {
		return "", nil
	}
	line := c.quoted + " " + c.declared
	for l := range strings.Lines(definition) {
		l = strings.TrimSuffix(strings.TrimSpace(l), ",")
		if rest, is := strings.CutPrefix(l, line); is && (rest == "" || rest[0] == ' ') {
			return "ALTER TABLE " + table + " MODIFY " + c.quoted + " " + typ + rest, nil
		}
	}
	return "", nil
}

// measured reports whether the types of a field's source columns determine the length of the view's column. ENUMs, SETs
// and MariaDB's own types don't, because the program makes them texts with room to spare.
func (d *declarer) measured(ctx context.Context, f replicator.Field) (bool, error) {
	for _, o := range config.OriginsOf(d.view, f.Path) {
		origin, err := d.from.column(ctx, d.sink.tables[o.Table], o.Path)
		if err != nil || origin == nil {
			return false, err
		}
		if kind := origin.kind(); kind == "enum" || kind == "set" || foreign[kind] != "" {
			return false, nil
		}
	}
	return true, nil
}

// widenOwn widens a column of a table that the program created, and reports whether it did. If another program's
// transaction has read the table, widenOwn waits only a few seconds.
func (s *Sink) widenOwn(ctx context.Context, k *keeper, statement string) (done bool, err error) {
	err = s.impatient(ctx, 5, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, statement+", ALGORITHM=INPLACE, LOCK=NONE")
		var refused *mysql.MySQLError
		if errors.As(err, &refused) && !is(err, errLockWait) && k.isSmall(ctx, conn) {
			_, err = conn.ExecContext(ctx, statement)
		}
		return err
	})
	var refused *mysql.MySQLError
	switch {
	case err == nil:
		s.log.Info("widened a column, because the source's column is wider now", "sink", s.name, "view", k.view.Name,
			"statement", statement)
		return true, nil
	case errors.As(err, &refused) && !is(err, errLockWait):
		s.log.Warn("a column is narrower than the source's, and is not widened, because the server would have to "+
			"copy the table; run the statement when the table may be copied", "sink", s.name, "view", k.view.Name,
			"statement", statement, "error", classify(err, "widening a column"))
		return false, nil
	}
	return false, classify(err, "widening a column")
}

// narrower returns the statements that widen those columns of the view that are narrower than the source's.
func (s *Sink) narrower(ctx context.Context, k *keeper, from *origins) (statements []string, err error) {
	now, err := definition(ctx, s.db, k.table)
	for _, c := range slices.Concat(k.keys, k.fields) {
		if err != nil || now == "" {
			break
		}
		var statement string
		if statement, err = s.widen(ctx, k.view, k.table, now, c, from); statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements, classify(err, "comparing the widths of columns with the source's")
}

// widenShadow widens columns of the new table that a rebuild is about to fill, and reports whether it widened any.
func (s *Sink) widenShadow(ctx context.Context, k *keeper, from *origins) (widened bool, err error) {
	if k.view.Shadows == "" || !settingsOf(k.view).Create {
		return false, nil
	}
	statements, err := s.narrower(ctx, k, from)
	for _, statement := range statements {
		if err != nil {
			break
		}
		var done bool
		done, err = s.widenOwn(ctx, k, statement)
		widened = widened || done
	}
	return widened, err
}

func (k *keeper) isSmall(ctx context.Context, conn *sql.Conn) bool {
	var rows int
	err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) AS some", k.table,
		smallTable+1)).Scan(&rows)
	return err == nil && rows <= smallTable
}

// wider reports whether a type of the same family holds everything that the column does, and more.
func wider(c *column, typ string) bool {
	kind, sizes := (&SourceColumn{Type: typ}).kind(), sizesOf(typ)
	unsigned := strings.Contains(typ, "unsigned")
	switch {
	case integerBits[c.typ] > 0 && integerBits[kind] > 0:
		return integerBits[kind] > integerBits[c.typ] && (c.unsigned || !unsigned)
	case c.typ == "decimal" && kind == "decimal" && len(sizes) == 2:
		whole, had := sizes[0]-sizes[1], c.precision-c.scale
		return whole >= had && sizes[1] >= c.scale && whole+sizes[1] > had+c.scale && c.unsigned == unsigned
	case c.fits("char", "varchar") && (kind == "varchar" || kind == "char" && c.typ == "char") && len(sizes) == 1:
		return int64(sizes[0]) > c.chars
	case c.fits("binary") && kind == "varbinary", c.fits("varbinary") && kind == "varbinary":
		return len(sizes) == 1 && int64(sizes[0]) > c.bytes
	case c.fits("char", "varchar", "tinytext", "text", "mediumtext") && textBytes[kind] > 0:
		return textBytes[kind] > c.bytes
	case c.fits("binary", "varbinary", "tinyblob", "blob", "mediumblob") && blobBytes[kind] > 0:
		return blobBytes[kind] > c.bytes
	case c.fits("datetime", "timestamp", "time") && kind == c.typ:
		return len(sizes) == 1 && sizes[0] > c.fraction
	}
	return false
}

func (c *column) fits(types ...string) bool { return slices.Contains(types, c.typ) }

// The largest value of each TEXT and BLOB type, in bytes.
var (
	textBytes = map[string]int64{"tinytext": 1<<8 - 1, "text": 1<<16 - 1, "mediumtext": 1<<24 - 1, "longtext": 1<<32 - 1}
	blobBytes = map[string]int64{"tinyblob": 1<<8 - 1, "blob": 1<<16 - 1, "mediumblob": 1<<24 - 1, "longblob": 1<<32 - 1}
)

// sizesOf returns the numbers in a type's parentheses: 10 and 2 for decimal(10,2).
func sizesOf(typ string) (sizes []int) {
	_, in, _ := strings.Cut(typ, "(")
	in, _, _ = strings.Cut(in, ")")
	for _, text := range strings.Split(in, ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			sizes = append(sizes, n)
		}
	}
	return sizes
}
