package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/canal/gtid"
)

type server struct {
	flavor   gtid.Flavor
	version  string
	identity string // identifies the server, and so its binlog files: see readServer
	logBin   bool
	gtidMode string // MySQL's gtid_mode; on MariaDB "ON", because it always numbers transactions
	names    bool   // the binlog names columns: binlog_row_metadata=FULL
	fold     bool   // table names are compared without case
	tls      bool
}

// readServer asks a connection which server it leads to. MariaDB has no UUID, so its id, host and port identify the
// server. If two servers had the same three, resolver.judge would still notice that their logs differ.
func readServer(ctx context.Context, db querier) (server, error) {
	var s server
	var id, host, port, lower string
	err := db.QueryRowContext(ctx,
		"SELECT VERSION(), @@GLOBAL.server_id, @@hostname, @@port, @@lower_case_table_names, @@log_bin").
		Scan(&s.version, &id, &host, &port, &lower, &s.logBin)
	if err != nil {
		return s, classify(err)
	}
	s.fold = lower != "0"
	s.flavor = gtid.MySQL
	if strings.Contains(strings.ToLower(s.version), "mariadb") {
		s.flavor, s.gtidMode = gtid.MariaDB, "ON"
		s.identity = fmt.Sprintf("mariadb-%s-%s-%s", id, host, port)
	} else {
		err := db.QueryRowContext(ctx, "SELECT @@server_uuid, @@GLOBAL.gtid_mode").Scan(&s.identity, &s.gtidMode)
		if err != nil {
			return s, classify(err)
		}
	}
	var cipher string
	if err := db.QueryRowContext(ctx, "SHOW SESSION STATUS LIKE 'Ssl_cipher'").Scan(new(string), &cipher); err == nil {
		s.tls = cipher != ""
	}
	metadata, err := variable(ctx, db, "binlog_row_metadata")
	s.names = strings.EqualFold(metadata, "FULL")
	return s, err
}

// gtid reports whether transactions may have GTIDs.
func (s server) gtid() bool { return s.gtidMode != "OFF" }

// numbers reports whether all new transactions get GTIDs.
func (s server) numbers() bool { return s.gtidMode == "ON" || s.gtidMode == "ON_PERMISSIVE" }

// sameServer checks that a connection leads to this server. It needs one round trip; readServer needs several.
func (s server) sameServer(ctx context.Context, db querier) error {
	var identity string
	if err := db.QueryRowContext(ctx, s.identityQuery()).Scan(&identity); err != nil {
		return fmt.Errorf("asking the source which server it is: %w", err)
	}
	return s.is(identity)
}

func (s server) identityQuery() string {
	if s.flavor == gtid.MariaDB {
		return "SELECT CONCAT_WS('-', 'mariadb', @@GLOBAL.server_id, @@hostname, @@port)"
	}
	return "SELECT @@server_uuid"
}

func (s server) is(identity string) error {
	if identity != s.identity {
		return fmt.Errorf("the source is now another server: it is %s, and was %s", identity, s.identity)
	}
	return nil
}

// variable returns the value of a global variable; "" if the server doesn't know it. SHOW GLOBAL VARIABLES would take
// MySQL 9 ten milliseconds, because it first collects all seven hundred.
func variable(ctx context.Context, db querier, name string) (string, error) {
	var value sql.NullString
	err := classify(db.QueryRowContext(ctx, "SELECT @@GLOBAL."+name).Scan(&value))
	if refused := (*mysqlError)(nil); errors.As(err, &refused) && refused.Number == unknownVariable {
		return "", nil
	}
	return value.String, err
}

const unknownVariable = 1193

func isOff(value string) bool { return value == "0" || strings.EqualFold(value, "OFF") }

// named returns the rows of a SHOW statement as maps by column name, because the columns differ between versions.
func named(ctx context.Context, db querier, query string, args ...any) ([]map[string]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, classify(err)
	}
	names, err := rows.Columns()
	if err != nil {
		rows.Close()
		return nil, err
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	var out []map[string]string
	err = eachRow(rows, func() error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		m := make(map[string]string, len(names))
		for i, n := range names {
			m[strings.ToLower(n)] = values[i].String
		}
		out = append(out, m)
		return nil
	})
	return out, classify(err)
}

// binlogStatus returns the server's binlog status: the log's end, and the databases that it omits.
func (s server) binlogStatus(ctx context.Context, db querier) (map[string]string, error) {
	query := "SHOW MASTER STATUS"
	if s.flavor == gtid.MySQL && !s.oldMySQL() {
		query = "SHOW BINARY LOG STATUS"
	}
	rows, err := named(ctx, db, query)
	if err == nil && len(rows) == 0 {
		err = errNoBinlog
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// status returns the current end of the binlog; gtids are MySQL's committed transactions.
func (s server) status(ctx context.Context, db querier) (file fileName, pos int64, gtids string, err error) {
	row, err := s.binlogStatus(ctx, db)
	if err != nil {
		return file, 0, "", err
	}
	if _, err = fmt.Sscan(row["position"], &pos); err != nil {
		return file, 0, "", fmt.Errorf("binlog status: %w", err)
	}
	if file, err = parseFileName(row["file"]); err != nil {
		return file, 0, "", err
	}
	return file, pos, compact(row["executed_gtid_set"]), nil
}

// latest returns the current end of the binlog, with the GTIDs before it. If some GTIDs may be missing, the token is
// Loose.
func (s server) latest(ctx context.Context, db querier) (t token, err error) {
	executed := gtid.New(s.flavor)
	if s.flavor == gtid.MariaDB {
		// Ask for the executed GTIDs before the log's end, so that they include no transaction after that end.
		if executed, err = s.executed(ctx, db); err != nil {
			return t, err
		}
	}
	file, pos, gtids, err := s.status(ctx, db)
	if err != nil {
		return t, err
	}
	t = token{placed: placed{File: file.name, Pos: pos}, GTID: gtids, Loose: gtids != "", Anonymous: !s.numbers()}
	if s.flavor == gtid.MariaDB {
		var known bool
		if t.GTID, known, err = gtidAt(ctx, db, t.File, t.Pos); err == nil && !known {
			t.GTID, t.Loose = executed.String(), !executed.Empty()
		}
	}
	return t, err
}

// oldMySQL reports whether the server is older than 8.2, and so lacks SHOW BINARY LOG STATUS.
func (s server) oldMySQL() bool { return !s.isFrom(8, 2, 0) }

func (s server) isFrom(release ...int) bool {
	var is [3]int
	_, _ = fmt.Sscanf(s.version, "%d.%d.%d", &is[0], &is[1], &is[2])
	return slices.Compare(is[:], release) >= 0
}

// locksForSelect reports whether SELECT rights are enough for a locking read. MySQL 8.0 before 8.0.22 requires more.
func (s server) locksForSelect() bool { return s.isFrom(8, 0, 22) || !s.isFrom(8, 0, 0) }

func compact(set string) string { return strings.NewReplacer("\n", "", " ", "").Replace(set) }

// gtidAt returns MariaDB's GTID set at a log position. known is false if the server does not tell: the file has no such
// position, it is beyond 4 GiB, or it follows an event that is larger than the session's max_allowed_packet.
func gtidAt(ctx context.Context, db querier, file string, pos int64) (set string, known bool, err error) {
	var s sql.NullString
	err = db.QueryRowContext(ctx, "SELECT BINLOG_GTID_POS(?, ?)", file, pos).Scan(&s)
	return compact(s.String), s.Valid, classify(err)
}

// remembered is like gtidAt, but leaves out domains that were deleted at the server: after FLUSH BINARY LOGS
// DELETE_DOMAIN_ID, only some of the files still list them.
func (s server) remembered(ctx context.Context, db querier, file string, pos int64) (*gtid.Set, bool, error) {
	text, known, err := gtidAt(ctx, db, file, pos)
	if err != nil || !known {
		return nil, false, err
	}
	set, err := gtid.Parse(gtid.MariaDB, text)
	if err != nil {
		return nil, false, err
	}
	executed, err := s.executed(ctx, db)
	if err != nil {
		return nil, false, err
	}
	set.Keep(executed)
	return set, true, nil
}

type logFile struct {
	fileName
	size int64
}

func logFiles(ctx context.Context, db querier) ([]logFile, error) {
	rows, err := named(ctx, db, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	files := make([]logFile, 0, len(rows))
	for _, r := range rows {
		f := logFile{}
		if f.fileName, err = parseFileName(r["log_name"]); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(r["file_size"], &f.size); err != nil {
			return nil, fmt.Errorf("size of binlog %s: %w", f.name, err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, replicator.Fatal(errors.New("the source has no binlog files. Start it with log_bin"))
	}
	return files, nil
}

// gtidsBefore returns all transactions before a file's first transaction, including transactions that are in no file.
func (s server) gtidsBefore(ctx context.Context, db querier, file string) (*gtid.Set, error) {
	before, err := s.gtidsOfFilesBefore(ctx, db, file)
	if err != nil {
		return nil, err
	}
	unlogged, err := s.unlogged(ctx, db, gtid.New(s.flavor))
	if err == nil {
		before.Join(unlogged)
	}
	return before, err
}

// unlogged returns the server's transactions that are neither in its binlog files nor in `others`: their files were
// purged, or they were never logged, as after restoring a backup (SET GLOBAL gtid_purged). Only MySQL lists them.
func (s server) unlogged(ctx context.Context, db querier, others *gtid.Set) (*gtid.Set, error) {
	if s.flavor != gtid.MySQL {
		return gtid.New(s.flavor), nil
	}
	var text string
	err := db.QueryRowContext(ctx, "SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, ?)", others.String()).Scan(&text)
	if err != nil {
		return nil, classify(err)
	}
	return gtid.Parse(s.flavor, compact(text))
}

func (s server) gtidsOfFilesBefore(ctx context.Context, db querier, file string) (*gtid.Set, error) {
	if s.flavor == gtid.MariaDB {
		set, known, err := s.remembered(ctx, db, file, 4)
		if err == nil && !known {
			err = fmt.Errorf("the source does not report the transactions before binlog %s, perhaps because it has "+
				"just purged the file", file)
		}
		return set, err
	}
	rows, err := named(ctx, db, "SHOW BINLOG EVENTS IN '"+strings.ReplaceAll(file, "'", "''")+"' LIMIT 3")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if strings.EqualFold(r["event_type"], "Previous_gtids") {
			return gtid.Parse(s.flavor, r["info"])
		}
	}
	return nil, replicator.Fatal(fmt.Errorf("binlog %s doesn't say which transactions are before it, perhaps because "+
		"gtid_mode was OFF when it was written. If the views are complete up to a position in a later file, stop the "+
		"program, run "+checkpointSet+" with that position, and start it again", file))
}

func (s server) executed(ctx context.Context, db querier) (*gtid.Set, error) {
	query := "SELECT @@GLOBAL.gtid_executed"
	if s.flavor == gtid.MariaDB {
		query = "SELECT @@GLOBAL.gtid_binlog_pos"
	}
	var text string
	if err := db.QueryRowContext(ctx, query).Scan(&text); err != nil {
		return nil, classify(err)
	}
	return gtid.Parse(s.flavor, text)
}
