package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/human"
	"replicator/internal/remedy"
	"replicator/internal/sqlname"
)

// Check checks everything that reading needs, and returns a finding for each check. It stops early only if it can't go
// on.
func (s *Source) Check(ctx context.Context) []replicator.Finding {
	c := &checker{}
	conn, srv, err := s.connect(ctx)
	if err != nil {
		c.unconnected(err)
		return c.findings
	}
	defer conn.Close()
	c.ok("connection", fmt.Sprintf("%s %s at %s", srv.flavor, srv.version, s.mysql.Addr))
	c.grants(ctx, conn)
	if !srv.logBin {
		c.fail("log_bin", "OFF", "start the server with log_bin")
		return c.findings
	}
	c.ok("log_bin", "ON")
	c.variable(ctx, conn, "binlog_format", "ROW", replicator.Fail, mendFormat)
	c.rowImages(ctx, conn)
	c.variable(ctx, conn, "binlog_row_metadata", "FULL", replicator.Warn,
		"SET GLOBAL binlog_row_metadata = FULL, and set it in my.cnf. Otherwise rows may be unreadable after an ALTER "+
			"(on_unlogged), and views must be compared with the source")
	c.unnumbered(ctx, conn, srv)
	if f, err := srv.unloggedReplica(ctx, conn); err != nil {
		c.fail(f.What, describe(err), "")
	} else if f.Level != replicator.OK {
		c.findings = append(c.findings, f)
	}
	c.durability(ctx, conn)
	c.retention(ctx, conn, srv)
	if err := srv.leftOut(ctx, conn, s.cfg.Tables); err != nil {
		c.fail("binlog filters", describe(err), "")
	}
	for _, t := range s.cfg.Tables {
		c.tables(ctx, conn, srv, t, s.db.Conn)
	}
	c.merged(ctx, conn, srv, s)
	c.joins(ctx, conn, s.cfg.Tables)
	return c.findings
}

// unnumbered reports a MySQL server that may write transactions without GTIDs. Then views can't move to another server,
// and reads may have to lock rows.
func (c *checker) unnumbered(ctx context.Context, db querier, srv server) {
	if srv.flavor != gtid.MySQL || srv.gtidMode == "ON" {
		return
	}
	level, detail, fix := replicator.Warn, srv.gtidMode,
		"set gtid_mode = ON. Otherwise a move to another server means a rebuild"
	switch _, listed, err := commitLocks(ctx, db); {
	case err != nil:
		c.fail("performance_schema", describe(err), "")
	case listed:
	case !srv.locksForSelect():
		level, fix = replicator.Fail, settleRemedy
		detail += ", and performance_schema does not list commits: rows can't be read with only the SELECT right"
	case srv.isFrom(8, 0, 0):
		fix = settleRemedy
		detail += ", and performance_schema does not list commits: reads lock rows, and writes may wait for these locks"
	default:
		fix = settleRemedy
		detail += ", and performance_schema does not list commits: reads lock rows, writes may wait for these locks, " +
			"and fills are slow"
	}
	c.add(level, "gtid_mode", detail, fix)
}

func (c *checker) unconnected(err error) {
	my := &mysqlError{}
	errors.As(err, &my)
	switch my.Number {
	case errnoDBAccessDenied:
		account := "the dsn's user"
		if named := deniedTo.FindStringSubmatch(my.Message); named != nil {
			account = named[1]
		}
		c.fail("grants", describe(err), sourceGrant+account)
	case errnoTooManyConns:
		c.fail("connection", describe(err),
			"raise max_connections on the server, or find the clients that use the connections by SHOW PROCESSLIST")
	default:
		c.fail("connection", describe(err), "check the DSN, that the server runs, and the account's password")
	}
}

// durability checks whether a crash of the server can leave transactions in the binlog that the server's tables lack.
func (c *checker) durability(ctx context.Context, db querier) {
	const redo = "innodb_flush_log_at_trx_commit"
	flush, err := variable(ctx, db, redo)
	synced, err2 := variable(ctx, db, "sync_binlog")
	if err != nil || err2 != nil || flush == "1" || flush == "2" && synced == "0" {
		return
	}
	c.warn(redo, fmt.Sprintf("it is %s: if the source crashes, its last transactions may be in the binlog and in the "+
		"views, but not in its tables", flush),
		"SET GLOBAL "+redo+" = 1, and set it in my.cnf. Otherwise run `replicator verify --repair` after a crash")
}

// merged reports columns of merging views (views of several tables) that none of the tables has: typing errors. Columns
// that one certain table must have (Table.Columns) are reported by the check of that table.
func (c *checker) merged(ctx context.Context, db *sql.Conn, srv server, s *Source) {
	wanted, found := map[string][]string{}, map[string]bool{} // wanted: column → tables that may have it
	for _, t := range s.cfg.Tables {
		for _, name := range t.Columns {
			found[name] = true
		}
		if len(t.Optional) == 0 {
			continue
		}
		_, shape, err := s.shapeOf(ctx, db, srv, &t)
		if err != nil {
			return // an earlier check reported the table
		}
		for _, name := range t.Optional {
			wanted[name] = append(wanted[name], t.Name)
			found[name] = found[name] || shape.column(name) != nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !found[name] {
			c.fail("column "+name, "none of the tables "+strings.Join(wanted[name], ", ")+" has a column "+name,
				"correct the path in the views of these tables")
		}
	}
}

type checker struct {
	findings []replicator.Finding
	images   string // binlog_row_image, in capitals
}

func (c *checker) add(level replicator.Level, what, detail, fix string) {
	c.findings = append(c.findings, replicator.Finding{What: what, Level: level, Detail: detail, Fix: fix})
}

func (c *checker) ok(what, detail string)        { c.add(replicator.OK, what, detail, "") }
func (c *checker) warn(what, detail, fix string) { c.add(replicator.Warn, what, detail, fix) }
func (c *checker) fail(what, detail, fix string) { c.add(replicator.Fail, what, detail, fix) }

// describe returns the text of a driver's error. These errors contain no password.
func describe(err error) string { return err.Error() }

func grantFix(ctx context.Context, db querier) string {
	account := "the dsn's user"
	if rows, err := named(ctx, db, "SELECT CURRENT_USER() AS account"); err == nil && len(rows) == 1 {
		account = sqlname.Account(rows[0]["account"])
	}
	return sourceGrant + account
}

const sourceGrant = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "

// deniedTo finds the account in a server's error that denies access to a database.
var deniedTo = regexp.MustCompile(`for user ('.*'@'.*') to database`)

func (c *checker) variable(ctx context.Context, db querier, name, want string, level replicator.Level, fix string) {
	v, err := variable(ctx, db, name)
	switch {
	case err != nil:
		c.fail(name, describe(err), "")
	case strings.EqualFold(v, want):
		c.ok(name, v)
	case v == "":
		c.add(level, name, "the server has no such variable", "use MySQL 8.0, MariaDB 10.5, or a newer server")
	default:
		c.add(level, name, v, fix)
	}
}

// grants checks the account's rights. SHOW GRANTS names roles without their rights, so the rights of a role are
// unknown.
func (c *checker) grants(ctx context.Context, db querier) {
	rows, err := named(ctx, db, "SHOW GRANTS")
	if err != nil {
		c.fail("grants", describe(err), "")
		return
	}
	var all string
	role := false
	for _, r := range rows {
		for _, grant := range r {
			// The part after TO may contain a password's hash.
			if to := strings.Index(strings.ToUpper(grant), " TO "); to > 0 {
				grant = grant[:to]
			}
			role = role || !strings.Contains(strings.ToUpper(grant), " ON ")
			all += strings.ToUpper(grant) + "\n"
		}
	}
	everything := strings.Contains(all, "GRANT ALL PRIVILEGES ON *.*")
	missing := []string{}
	for _, need := range [][]string{{"REPLICATION SLAVE", "REPLICATION REPLICA"},
		{"REPLICATION CLIENT", "BINLOG MONITOR"}} {
		if !everything && !slices.ContainsFunc(need, func(g string) bool { return strings.Contains(all, g) }) {
			missing = append(missing, need[0])
		}
	}
	if !everything && !strings.Contains(all, "SELECT") && !strings.Contains(all, "ALL PRIVILEGES") {
		missing = append(missing, "SELECT")
	}
	if len(missing) > 0 {
		level := replicator.Fail
		if role {
			level = replicator.Warn // a role may include the missing rights
		}
		c.add(level, "grants", "missing: "+strings.Join(missing, ", "), grantFix(ctx, db))
		return
	}
	c.ok("grants", "SELECT, REPLICATION SLAVE, REPLICATION CLIENT")
}

// minRetention is the shortest retention of binlogs that gets no warning. An outage of a weekend needs more.
const minRetention = 24 * time.Hour

func (c *checker) retention(ctx context.Context, db querier, srv server) {
	kept, err := retention(ctx, db, srv)
	switch {
	case err != nil:
		c.fail("binlog retention", describe(err), "")
	case kept == 0:
		c.ok("binlog retention", "binlogs are kept until they are purged by hand")
	case kept < minRetention:
		c.warn("binlog retention", human.Duration(kept),
			"raise binlog_expire_logs_seconds (MySQL 5.7: expire_logs_days). An outage beyond that means a rebuild")
	default:
		c.ok("binlog retention", human.Duration(kept))
	}
}

// retention returns how long the server keeps a binlog file; 0 means forever.
func retention(ctx context.Context, db querier, srv server) (time.Duration, error) {
	if v, err := variable(ctx, db, "binlog_expire_logs_auto_purge"); err != nil || isOff(v) {
		return 0, err
	}
	v, err := variable(ctx, db, "binlog_expire_logs_seconds")
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 {
		return time.Duration(n) * time.Second, nil
	}
	if v, err = variable(ctx, db, "expire_logs_days"); err != nil {
		return 0, err
	}
	days, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return 0, nil
	}
	return time.Duration(days * float64(24*time.Hour)), nil
}

func (c *checker) table(ctx context.Context, db *sql.Conn, srv server, table replicator.Table) {
	what := "table " + table.Name
	shape, err := readSchema(ctx, db, &table)
	if err != nil {
		c.fail(what, describe(err), "create it, correct `table`, or grant SELECT on it")
		return
	}
	w := &watched{Table: table, id: table.Name}
	w.schema.Store(shape)
	if err := w.check(srv.flavor); err != nil {
		fix := "correct the table's columns in the configuration"
		switch {
		case replicator.IsOfViews(err):
			fix = "correct these views, or add the column"
		case shape.countable(&table) != nil:
			fix = "name a version, or make the key unique"
		}
		c.fail(what, describe(err), fix)
		return
	}
	rows := "several rows per cell: the row with the highest " + table.Version + " counts"
	if shape.single(&table) {
		rows = "one row per cell: the binlog's order is the version"
	}
	c.ok(what, fmt.Sprintf("%s.%s: %s", table.Database, table.Table, rows))
	x, err := newSelection(w)
	if err != nil || !x.ordered() {
		c.fail(what, "the table has no key by which a scan can page through its rows", "add a primary key")
		return
	}
	c.rowColumns(srv, x)
	var offset []string
	for _, i := range x.offset {
		offset = append(offset, x.columns[i].Name)
		if x.columns[i].kind == binlog.KindFloat || x.columns[i].kind == binlog.KindJSON {
			c.fail(what, fmt.Sprintf("offset column %s is a %s, which a scan can't compare exactly", x.columns[i].Name,
				x.columns[i].dataType), "set `offset` to columns of other types, such as integers or texts")
		}
	}
	if !shape.hasIndex(offset) {
		c.warn(what, "no index begins with its offset columns "+strings.Join(offset, ", "),
			"add such an index. Otherwise a rebuild sorts the table for every chunk")
	}
	if !shape.hasIndex(table.Key) && !shape.hasIndexSet(append(slices.Clone(table.Key), table.Column)) {
		c.warn(what, "no index begins with its key columns "+strings.Join(table.Key, ", "),
			"add such an index. Otherwise every delete reads the whole table")
	}
}

// spellings looks for key values that the source treats as equal although they are written differently.
func (c *checker) spellings(ctx context.Context, db *sql.Conn, srv server, table replicator.Table,
	connect func(context.Context) (*sql.Conn, error)) {
	shape, err := readSchema(ctx, db, &table)
	if err != nil {
		return // an earlier check reported the error
	}
	if err := newColumnNames(&table, shape, connect).check(ctx); err != nil {
		c.fail("table "+table.Name, describe(err), "correct the views")
	}
	if !shape.mixed {
		return
	}
	w := &watched{Table: table, id: table.Name}
	w.schema.Store(shape)
	x, err := newSelection(w)
	if err != nil {
		return
	}
	if key, err := x.respelt(ctx, db, srv.flavor); err == nil && key != "" { // the search may time out
		c.warn("table "+table.Name,
			fmt.Sprintf("rows spell key %s in several ways, and the source treats these as one key. Views show the "+
				"newest row's spelling. A view with several entries in `from` fails while the rows that it merges "+
				"spell the key differently", key),
			"spell each key one way, or give the key's columns "+remedy.ExactCollation)
	}
}

// cascade finds foreign keys in SHOW CREATE TABLE that change this table's rows when another table's rows change.
var cascade = regexp.MustCompile(`CONSTRAINT .* FOREIGN KEY .* ON (DELETE|UPDATE) (CASCADE|SET NULL)`)

// cascades warns of foreign keys that change rows without entries in the binlog. If InnoDB itself executes foreign keys
// (MariaDB, and MySQL before 9.6), the changes that a cascade makes to the child table are not logged.
func (c *checker) cascades(ctx context.Context, db querier, table replicator.Table) {
	if v, err := variable(ctx, db, "innodb_native_foreign_keys"); err != nil || isOff(v) {
		return
	}
	var name, ddl string
	place := sqlname.Quote(table.Database) + "." + sqlname.Quote(table.Table)
	if db.QueryRowContext(ctx, "SHOW CREATE TABLE "+place).Scan(&name, &ddl) != nil {
		return // an earlier check reported that the table can't be read
	}
	if cascade.MatchString(ddl) {
		c.warn("table "+table.Name,
			"a foreign key's ON DELETE or ON UPDATE changes the table's rows, and this server does not log these "+
				"changes, so views keep the old rows",
			"let the application's own statements change these rows, or run `replicator verify --repair` regularly")
	}
}

// hasIndex reports whether an index begins with these columns, in this order. InnoDB appends the primary key to
// secondary indexes.
func (s *schema) hasIndex(columns []string) bool {
	return slices.ContainsFunc(s.indexed, func(index []string) bool {
		whole := append(slices.Clone(index), s.primary...)
		if len(whole) < len(columns) {
			return false
		}
		for i, name := range columns {
			if !strings.EqualFold(whole[i], name) {
				return false
			}
		}
		return true
	})
}

// hasIndexSet reports whether an index begins with these columns, in any order.
func (s *schema) hasIndexSet(columns []string) bool {
	return slices.ContainsFunc(s.indexed, func(index []string) bool {
		return len(index) >= len(columns) && subset(index[:len(columns)], columns)
	})
}

// TableInfo describes a watched table's current definition at the source.
type TableInfo struct {
	Name    string // the name in the configuration
	Columns []ColumnInfo
	Primary []string
	Single  bool // at most one row per cell
}

// ColumnInfo is a column of a table.
type ColumnInfo struct {
	Name     string
	Type     string // as information_schema shows it: int(10) unsigned
	Nullable bool

	Charset, Collation string // "" if the column isn't text
}

// Tables describes the watched tables.
func (s *Source) Tables(ctx context.Context) ([]TableInfo, error) {
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	loaded, err := s.loadTables(ctx, conn, srv, nil)
	if err != nil {
		return nil, err
	}
	var out []TableInfo
	for _, t := range s.cfg.Tables {
		shape := loaded.first(t.Name).schema.Load()
		out = append(out, TableInfo{Name: t.Name, Columns: shape.infos(), Primary: shape.primary,
			Single: shape.single(&t)})
	}
	return out, nil
}

func (c *declaredColumn) info() ColumnInfo {
	return ColumnInfo{Name: c.Name, Type: c.fullType, Nullable: c.nullable, Charset: c.Charset, Collation: c.collation}
}

// Columns returns the current columns of a configured table; none if the configuration has no such table.
func (s *Source) Columns(ctx context.Context, table string) ([]ColumnInfo, error) {
	i := slices.IndexFunc(s.cfg.Tables, func(t replicator.Table) bool { return t.Name == table })
	if i < 0 {
		return nil, nil
	}
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_, shape, err := s.shapeOf(ctx, conn, srv, &s.cfg.Tables[i])
	if err != nil {
		return nil, classify(err)
	}
	return shape.infos(), nil
}

// Forever is the retention of binlogs that the server never purges automatically.
const Forever time.Duration = math.MaxInt64

// Retention returns how much longer the server certainly keeps the binlog file of a position. Zero means that the
// server may purge the file at any moment. If the file is gone, the error is ErrLost.
func (s *Source) Retention(ctx context.Context, p replicator.Position) (time.Duration, error) {
	t, err := parseToken(p.Token)
	if err != nil {
		return 0, err
	}
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	s.textual(ctx, conn) // Retention is called regularly, so it also reads binlog_format, for the metrics
	kept, err := retention(ctx, conn, srv)
	if err != nil {
		return 0, err
	}
	files, err := logFiles(ctx, conn)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(files, func(f logFile) bool { return f.name == t.File })
	switch {
	case i < 0 && (t.Server == "" || t.Server == srv.identity):
		return 0, fmt.Errorf("%w %s: the oldest file left is %s", replicator.ErrLost, t, files[0].name)
	case i < 0:
		return 0, errors.New("the position belongs to another server's binlog")
	case kept == 0:
		return Forever, nil
	case i == len(files)-1: // the server writes to the last file and does not purge it
		return kept, nil
	}
	// The server may purge a file once its last write is older than the retention. The file's last write was when the
	// next file began.
	begun, err := s.begun(ctx, srv, files[i+1].name)
	if err != nil {
		return 0, err
	}
	return max(kept-time.Since(begun), 0), nil
}
