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

// settings returns the statements that set up a session, so that the server's defaults don't matter:
//
//   - strict mode, so that nothing is cut or rounded without an error, but with zero dates, because sources have them
//   - READ COMMITTED, so that a batch locks no gaps and sees what another replicator has just committed
//   - lock waits that are shorter than the read timeout, so that a long wait becomes a visible error
//   - short net timeouts, so that the server soon ends a session whose client stops in the middle of a statement
//   - no notes, because an UPDATE of many rows would make one for each row
//   - index dives for lists of any length, because by outdated index statistics the server would read a whole table for
//     a few hundred keys
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

func openDB(cfg *mysql.Config, timeout time.Duration) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.InterpolateParams = true // one round trip per statement, and no limit of 65,535 parameters
	cfg.MultiStatements = true   // values can't end a statement, because they are bound or quoted
	cfg.ParseTime = false
	cfg.Loc = time.UTC
	cfg.RejectReadOnly = true // after a failover the old primary is read-only: connect again
	cfg.MaxAllowedPacket = 0  // 0: as large as the server allows
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

type server struct {
	version  string
	packet   int  // max_allowed_packet
	hasAlias bool // whether an INSERT may name its new rows
}

// newServer returns what is known of a server with this VERSION(). MySQL has row aliases since 8.0.19. Other servers
// get VALUES() instead (newRow), without a warning.
func newServer(version string, packet int) *server {
	s := &server{version: version, packet: packet}
	s.hasAlias = !s.isMariaDB() && !strings.HasPrefix(version, "5.") && !olderThanAlias(version)
	return s
}

func (s *server) isMariaDB() bool { return strings.Contains(s.version, "MariaDB") }

// newRow returns the expression by which ON DUPLICATE KEY UPDATE refers to a column of the new row. The statement must
// have rowAlias after its VALUES. MariaDB has no row alias, and MySQL warns about each use of VALUES().
func (s *server) newRow(quoted string) string {
	if !s.hasAlias {
		return "VALUES(" + quoted + ")"
	}
	return "replicator_new." + quoted
}

func (s *server) rowAlias() string {
	if !s.hasAlias {
		return ""
	}
	return " AS replicator_new"
}

func (s *Sink) ask(ctx context.Context) (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return s.server, nil
	}
	return s.askNow(ctx)
}

// askAnew asks the server again, over new connections. An old session would keep the max_allowed_packet and the rights
// that it had at its beginning.
func (s *Sink) askAnew(ctx context.Context) (*server, error) {
	link.Renew(s.db)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.askNow(ctx)
}

func (s *Sink) askNow(ctx context.Context) (*server, error) {
	var version string
	var packet int
	row := s.db.QueryRowContext(ctx, "SELECT VERSION(), @@GLOBAL.max_allowed_packet")
	if err := row.Scan(&version, &packet); err != nil {
		return nil, classify(err, "connecting")
	}
	s.server = newServer(version, packet)
	return s.server, nil
}

// olderThanAlias reports whether a MySQL 8.0 is older than 8.0.19, the first release with row aliases.
func olderThanAlias(version string) bool {
	var patch int
	n, err := fmt.Sscanf(version, "8.0.%d", &patch)
	return n == 1 && err == nil && patch < 19
}

func split(name, fallback string) (database, table string) {
	if database, table, ok := strings.Cut(name, "."); ok {
		return database, table
	}
	return fallback, name
}
