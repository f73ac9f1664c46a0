package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/link"
)

// Timeout is how long a connection may go without an answer before it counts as lost, unless the DSN's readTimeout or
// Config.Timeout says otherwise.
const Timeout = 30 * time.Second

// settings are the statements that set up a session, whatever the server's defaults are:
//
//   - strict mode, so that nothing is cut or rounded without an error; zero dates are allowed, because sources hold
//     them; a zero stays a zero in an AUTO_INCREMENT column
//   - READ COMMITTED, so that a batch locks no gaps and sees what another replicator has just committed. The variable's
//     name differs between servers, the statement doesn't
//   - lock waits are shorter than waits for an answer: a lasting lock is a visible error, and is tried again
//   - the server doesn't wait long for a client in the middle of a statement or of its result, either
//   - no notes: an UPDATE of many rows would make one for each
//   - each key of a list is looked up in its index while the statement is planned. Beyond eq_range_index_dive_limit
//     keys, MySQL and MariaDB rely on index statistics instead. Those lag behind, so whole tables are read for some
//     hundred keys
func settings(silence time.Duration) []string {
	seconds := func(d time.Duration) int { return int(max(d, time.Second) / time.Second) }
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		fmt.Sprintf("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', "+
			"time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = %d, lock_wait_timeout = %d, "+
			"net_read_timeout = %d, net_write_timeout = %d, sql_safe_updates = 0, sql_notes = 0, eq_range_index_dive_limit = 0",
			seconds(link.LockWait(silence)), seconds(silence*2/3), seconds(2*silence), seconds(2*silence)),
	}
}

// openDB makes the pool. The DSN's own timeouts take precedence over the configured one.
func openDB(cfg *mysql.Config, timeout time.Duration) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.InterpolateParams = true // one round trip per statement, and no limit of 65,535 parameters
	cfg.MultiStatements = true   // see transaction.go; a value never ends a statement, because it is bound or quoted
	cfg.ParseTime = false
	cfg.Loc = time.UTC
	cfg.RejectReadOnly = true // after a failover the old primary is read-only: connect again
	cfg.MaxAllowedPacket = 0  // what the server allows
	cfg.Logger = &mysql.NopLogger{}
	if timeout == 0 {
		timeout = Timeout
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = timeout
	}
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, err
	}
	db, err := link.Open(cfg, link.Options{Session: settings(cfg.ReadTimeout)})
	if err != nil {
		return nil, fmt.Errorf("its dsn can't be used: %w", err)
	}
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(8)
	return db, nil
}

// server describes differences between servers.
type server struct {
	mariaDB bool
	version string
	packet  int // max_allowed_packet
}

// isMariaDB reports whether the server is MariaDB, of any version.
func (s *server) isMariaDB() bool { return strings.Contains(s.version, "MariaDB") }

// newRow is how ON DUPLICATE KEY UPDATE refers to the row to be inserted, and what must follow VALUES for it. MariaDB
// doesn't know the alias, and MySQL warns of each use of VALUES().
func (s *server) newRow(quoted string) string {
	if s.mariaDB {
		return "VALUES(" + quoted + ")"
	}
	return "replicator_new." + quoted
}

func (s *server) rowAlias() string {
	if s.mariaDB {
		return ""
	}
	return " AS replicator_new"
}

// ask returns the server's description, which may be cached.
func (s *Sink) ask(ctx context.Context) (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return s.server, nil
	}
	return s.askNow(ctx)
}

// askAnew asks the server again. A session keeps the max_allowed_packet and the rights from its beginning, so earlier
// sessions are not used again.
func (s *Sink) askAnew(ctx context.Context) (*server, error) {
	link.Renew(s.db)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.askNow(ctx)
}

func (s *Sink) askNow(ctx context.Context) (*server, error) {
	var srv server
	row := s.db.QueryRowContext(ctx, "SELECT VERSION(), @@GLOBAL.max_allowed_packet")
	if err := row.Scan(&srv.version, &srv.packet); err != nil {
		return nil, classify(err, "connecting")
	}
	srv.mariaDB = strings.Contains(srv.version, "MariaDB")
	if !srv.mariaDB && (strings.HasPrefix(srv.version, "5.") || olderThanAlias(srv.version)) {
		srv.mariaDB = true // MySQL before 8.0.19 has no row alias either, and doesn't warn of VALUES()
	}
	s.server = &srv
	return s.server, nil
}

// olderThanAlias reports whether a MySQL 8.0 version is older than 8.0.19.
func olderThanAlias(version string) bool {
	var patch int
	n, err := fmt.Sscanf(version, "8.0.%d", &patch)
	return n == 1 && err == nil && patch < 19
}

// split separates "db.table". The database is fallback if the name has none.
func split(name, fallback string) (database, table string) {
	if database, table, ok := strings.Cut(name, "."); ok {
		return database, table
	}
	return fallback, name
}
