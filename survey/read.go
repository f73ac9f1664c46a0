package survey

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/mysqldsn"
	"replicator/internal/sqlname"
)

// MySQL's error numbers.
const (
	deniedTable  = 1142
	deniedColumn = 1143
)

const (
	dialTimeout  = 10 * time.Second
	queryTimeout = 10 * time.Second // the time limit of one statement, which the server enforces
)

// ErrNoDatabase means that a DSN names no database. The error's text lists the databases.
var ErrNoDatabase = errors.New("the DSN names no database")

// ErrDSN means that a text is not a DSN. The error doesn't contain the text, which may contain the password.
var ErrDSN = errors.New("it has the form USER:PASSWORD@tcp(HOST:PORT)/DATABASE?NAME=VALUE")

// ErrNoTables means that a database has no tables that the user may see.
var ErrNoTables = errors.New("no tables")

const mostTables = 100

// Read reads the database of a DSN in go-sql-driver's form, and samples the tables that `only` lists. If the list is
// empty, it samples the hundred tables with the most rows, except tables of frameworks. If a table can't be read, its
// Problem says why, and there is no error. The caller sets Database.DSN.
func Read(ctx context.Context, dsn string, only []string) (*Database, error) {
	return read(ctx, dsn, only, sourceRights)
}

// ReadSink reads a database in which views will be kept. Its error messages name the rights of a sink's user.
func ReadSink(ctx context.Context, dsn string) (*Database, error) {
	return read(ctx, dsn, nil, sinkRights)
}

// The rights that the program needs at a source and in the database of a sink. The database's name is inserted.
const (
	sourceRights = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
	sinkRights   = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON %s.*"
)

func read(ctx context.Context, dsn string, only []string, rights string) (*Database, error) {
	r, done, err := connect(ctx, dsn, rights)
	if err != nil {
		return nil, err
	}
	defer done()
	seen, err := r.read(ctx, only)
	if errors.Is(err, ErrNoDatabase) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", r.address, err)
	}
	seen.Server, seen.Name = r.address, r.database
	if len(seen.Tables) == 0 {
		return seen, fmt.Errorf("the database %s at %s has %w that the user may see: create them first, or %s",
			r.database, r.address, ErrNoTables, r.grant(ctx, "*"))
	}
	return seen, nil
}

func (r *reader) names(ctx context.Context) ([]string, error) {
	names, err := r.strings(ctx,
		"SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE'",
		r.database)
	slices.Sort(names)
	return names, err
}

// Sample reads one table and a few of its rows, as Read does. It also samples the given columns, which Read may leave
// out; * means all. A table without a unique key gets no sample.
func Sample(ctx context.Context, dsn, database, table string, columns []string) (*Table, error) {
	r, done, err := connect(ctx, dsn, sourceRights)
	if err != nil {
		return nil, err
	}
	defer done()
	r.database, r.also = database, columns
	t := &Table{Name: table}
	if err = r.prepare(ctx); err == nil {
		err = r.table(ctx, t, true)
	}
	if err != nil {
		return nil, fmt.Errorf("looking at table %s at %s: %w", table, r.address, err)
	}
	return t, nil
}

// connect opens a reader's only connection. done closes it.
func connect(ctx context.Context, dsn, rights string) (r *reader, done func(), err error) {
	cfg, err := mysqldsn.Parse(dsn)
	if err != nil {
		return nil, nil, ErrDSN // the driver's error may contain the DSN
	}
	cfg.Logger = &mysql.NopLogger{}
	cfg.ParseTime, cfg.MultiStatements, cfg.InterpolateParams = false, false, true
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = 2 * queryTimeout
	}
	// Package canal uses this character set, too, whatever the DSN says.
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, nil, ErrDSN
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, ErrDSN
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close() // an error doesn't matter, because the pool has no open connection
		return nil, nil, fmt.Errorf("connecting to %s: %w%s", cfg.Addr, err, missing(err, strings.ReplaceAll(rights, "%s", sqlname.Quote(cfg.DBName))))
	}
	done = func() {
		_ = conn.Close() // an error doesn't matter, because everything was read
		_ = db.Close()
	}
	return &reader{conn: conn, address: cfg.Addr, database: cfg.DBName}, done, nil
}

type reader struct {
	conn     *sql.Conn
	address  string
	database string
	also     []string // columns to sample that are not sampled by default; *: all
	sampled  int      // total size of the samples so far, in bytes
}

func (r *reader) read(ctx context.Context, only []string) (*Database, error) {
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if r.database == "" {
		return nil, r.noDatabase(ctx)
	}
	names, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the database %s has no table %s, or the user lacks SELECT on it", r.database, name)
		}
	}
	db := &Database{Kept: map[string]string{}}
	if slices.Contains(names, "replicator_views") {
		if err := r.kept(ctx, db); err != nil {
			return nil, err
		}
	}
	chosen, err := r.choose(ctx, db, names, only)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		t, wanted := Table{Name: name}, chosen[name]
		if !wanted && db.Kept[name] == "" { // there may be thousands of other tables, and each would take two queries
			t.Skipped = true
			db.Tables = append(db.Tables, t)
			continue
		}
		if err := r.table(ctx, &t, wanted); err != nil {
			var answer *mysql.MySQLError
			if !errors.As(err, &answer) { // the server did not answer: the connection is gone
				return nil, fmt.Errorf("table %s: %w", name, err)
			}
			t.Problem = "reading it failed: " + answer.Message
			if answer.Number == deniedTable || answer.Number == deniedColumn {
				t.Problem += "; " + r.grant(ctx, sqlname.Quote(name))
			}
		}
		db.Tables = append(db.Tables, t)
	}
	return db, nil
}

// choose chooses the tables to sample: the named tables, or else all tables except the program's own and those of
// frameworks. If these are more than mostTables, it first drops all but the three largest tables of each numbered
// group. If they are still too many, it drops the smallest tables, and sets Beyond to their number.
func (r *reader) choose(ctx context.Context, db *Database, names, only []string) (map[string]bool, error) {
	wanted := only
	if len(only) == 0 {
		wanted = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return ofFramework(name) || isOwn(name) || db.Kept[name] != ""
		})
	}
	if len(only) == 0 && len(wanted) > 1 {
		rows, err := r.estimates(ctx)
		if err != nil {
			return nil, err
		}
		db.estimates = rows
	}
	if len(only) == 0 && len(wanted) > mostTables {
		slices.SortStableFunc(wanted, func(a, b string) int { return cmp.Compare(db.estimates[b], db.estimates[a]) })
		wanted = fewNumbered(wanted)
	}
	if len(only) == 0 && len(wanted) > mostTables {
		db.Beyond = len(wanted) - mostTables
		wanted = wanted[:mostTables]
	}
	chosen := map[string]bool{}
	for _, name := range wanted {
		chosen[name] = true
	}
	for name := range db.Kept { // sample the tables of existing views, so that the new file can keep these views in them
		chosen[name] = chosen[name] || len(only) == 0
	}
	return chosen, nil
}

// estimates returns the server's estimates of the tables' row counts. If the server answers with an error, such as a
// timeout, the result is empty.
func (r *reader) estimates(ctx context.Context) (map[string]int64, error) {
	rows := map[string]int64{}
	err := r.each(ctx, "SELECT table_name, COALESCE(table_rows, 0) FROM information_schema.tables WHERE table_schema = ?",
		[]any{r.database}, func(found *sql.Rows) error {
			var name string
			var n int64
			err := found.Scan(&name, &n)
			rows[name] = n
			return err
		})
	if answer := (*mysql.MySQLError)(nil); errors.As(err, &answer) {
		return nil, nil
	}
	return rows, err
}

// grant returns the statement that lets the session's user read one table or all tables.
func (r *reader) grant(ctx context.Context, table string) string {
	account := "the user"
	if current, err := r.strings(ctx, "SELECT CURRENT_USER()"); err == nil && len(current) == 1 {
		account = sqlname.Account(current[0])
	}
	return "GRANT SELECT ON " + sqlname.Quote(r.database) + "." + table + " TO " + account
}

// deniedTo finds the account in a server's message about a database that the user may not use.
var deniedTo = regexp.MustCompile(`for user ('.*'@'.*') to database`)

// missing returns the statement that gives a user the missing rights. It returns "" if the error had another reason.
func missing(err error, rights string) string {
	if answer := (*mysql.MySQLError)(nil); errors.As(err, &answer) && answer.Number == 1044 {
		if named := deniedTo.FindStringSubmatch(answer.Message); named != nil {
			return ": GRANT " + rights + " TO " + named[1]
		}
	}
	return ""
}

// prepare limits how long statements may run and wait. It ignores that the server refuses a setting, because MySQL and
// MariaDB each know only one name of the time limit. If neither works, the connection's read timeout still applies.
func (r *reader) prepare(ctx context.Context) error {
	limit := int(queryTimeout / time.Second)
	for _, set := range []string{
		fmt.Sprintf("max_execution_time = %d", 1000*limit), // MySQL's name of the time limit, in milliseconds
		fmt.Sprintf("max_statement_time = %d", limit),      // MariaDB's name of the time limit, in seconds
		"sql_select_limit = 18446744073709551615",          // a lower global limit would cut results off
		"lock_wait_timeout = 2",                            // limits the wait for a running ALTER TABLE, for example
		"sql_mode = ''",                                    // no ANSI_QUOTES, which changes what double quotes mean
	} {
		if _, err := r.conn.ExecContext(ctx, "SET SESSION "+set); err != nil {
			var answer *mysql.MySQLError
			if !errors.As(err, &answer) {
				return err
			}
		}
	}
	return nil
}

func (r *reader) noDatabase(ctx context.Context) error {
	names, err := r.strings(ctx, "SELECT schema_name FROM information_schema.schemata")
	if err != nil {
		return err
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains([]string{"information_schema", "mysql", "performance_schema", "sys"}, strings.ToLower(name))
	})
	if len(names) == 0 {
		return fmt.Errorf("%w, and the user can see no database: grant SELECT on one, and end the DSN "+
			"with its name", ErrNoDatabase)
	}
	return fmt.Errorf("%w: end it with /%s", ErrNoDatabase, strings.Join(names, ", or /"))
}

func (r *reader) strings(ctx context.Context, query string, args ...any) ([]string, error) {
	var all []string
	err := r.each(ctx, query, args, func(rows *sql.Rows) error {
		var s string
		err := rows.Scan(&s)
		all = append(all, s)
		return err
	})
	return all, err
}

func (r *reader) each(ctx context.Context, query string, args []any, f func(rows *sql.Rows) error) error {
	rows, err := r.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// table reads a table's columns and keys. If wanted, it also samples the table.
func (r *reader) table(ctx context.Context, t *Table, wanted bool) error {
	const columns = "SELECT column_name, data_type, column_type, COALESCE(character_maximum_length, 0), " +
		"character_set_name IS NOT NULL, is_nullable = 'YES', extra FROM information_schema.columns " +
		"WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position"
	err := r.each(ctx, columns, []any{r.database, t.Name}, func(rows *sql.Rows) error {
		var c Column
		var extra string
		if err := rows.Scan(&c.Name, &c.DataType, &c.Type, &c.Length, &c.Text, &c.Nullable, &extra); err != nil {
			return err
		}
		c.DataType, extra = strings.ToLower(c.DataType), strings.ToLower(extra)
		c.Auto = strings.Contains(extra, "auto_increment")
		c.Generated = strings.Contains(extra, "virtual generated") || strings.Contains(extra, "stored generated") ||
			strings.Contains(extra, "persistent")
		t.Columns = append(t.Columns, c)
		return nil
	})
	if err != nil {
		return err
	}
	// Keys on a prefix (sub_part) or on an expression (no column name) are not used, because their columns' values are
	// not unique.
	const keys = "SELECT index_name, COALESCE(column_name, ''), sub_part IS NULL AND index_type = 'BTREE', non_unique " +
		"FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? " +
		"AND (non_unique = 0 OR seq_in_index = 1) " +
		"ORDER BY non_unique, index_name <> 'PRIMARY', index_name, seq_in_index"
	last, usable := "", false
	var names []string
	err = r.each(ctx, keys, []any{r.database, t.Name}, func(rows *sql.Rows) error {
		var index, column string
		var whole, repeats bool
		if err := rows.Scan(&index, &column, &whole, &repeats); err != nil {
			return err
		}
		if repeats {
			t.indexed = append(t.indexed, column)
			return nil
		}
		if index != last {
			last, usable = index, true
			t.Unique, names = append(t.Unique, nil), append(names, "")
		} else if !usable {
			return nil
		}
		end := len(t.Unique) - 1
		if c := t.col(column); !whole || c == nil || c.Nullable {
			t.Unique[end], names[end], usable = nil, "", false
			return nil
		}
		t.Unique[end] = append(t.Unique[end], column)
		names[end] = index
		if index == "PRIMARY" {
			t.Primary = t.Unique[end]
		}
		return nil
	})
	t.Unique = slices.DeleteFunc(t.Unique, func(u []string) bool { return len(u) == 0 })
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if len(names) > 0 {
		t.firstIndex = names[0]
	}
	if err != nil || len(t.Unique) == 0 || isOwn(t.Name) {
		return err
	}
	if t.Skipped = !wanted; t.Skipped {
		return nil
	}
	if err := r.foreign(ctx, t); err != nil {
		return err
	}
	return r.sample(ctx, t)
}

// kept reads the program's own table, which lists the views in this database.
func (r *reader) kept(ctx context.Context, db *Database) error {
	return r.each(ctx, "SELECT name, target FROM replicator_views WHERE name IS NOT NULL", nil,
		func(rows *sql.Rows) error {
			var view, target string
			if err := rows.Scan(&view, &target); err != nil {
				return err
			}
			if target == "" {
				target = view
			}
			db.Kept[strings.TrimPrefix(target, r.database+".")] = view
			return nil
		})
}
