package canal

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/mysqldsn"
)

type mysqlError = mysql.MySQLError

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func eachRow(rows *sql.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

const (
	errnoAccessDenied     = 1045
	errnoDBAccessDenied   = 1044
	errnoTableDenied      = 1142
	errnoColumnDenied     = 1143
	errnoSpecificDenied   = 1227
	errnoLockWaitTimeout  = 1205
	errnoDeadlock         = 1213
	errnoBinlogFatal      = 1236
	errnoLockNowait       = 3572
	errnoNoSuchDatabase   = 1049
	errnoNoSuchTable      = 1146
	errnoNoSuchKey        = 1176
	errnoBadField         = 1054
	errnoNotAllowed       = 1130
	errnoPluginNotLoaded  = 1524
	errnoMustChangePasswd = 1820
	errnoTooManyConns     = 1040
)

// classify marks errors that a retry can't fix as Fatal.
func classify(err error) error {
	var e *mysqlError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Number {
	case errnoAccessDenied, errnoDBAccessDenied, errnoTableDenied, errnoColumnDenied, errnoSpecificDenied, errnoNotAllowed,
		errnoPluginNotLoaded, errnoMustChangePasswd, errnoNoSuchDatabase, errnoNoSuchTable, errnoBadField:
		return replicator.Fatal(err)
	}
	return err
}

const (
	dialTimeout = 10 * time.Second

	// queryTimeout limits the silence on an SQL connection, so that a dead link is noticed (see package link). It
	// exceeds our longest wait, which is for a row lock (50 s by default).
	queryTimeout = 3 * time.Minute

	// askAfter is how long a query may be silent before we ask the server whether it is still running.
	askAfter = 15 * time.Second
)

// sqlConfig returns the configuration of the connection pool. It overrides parameters of the DSN that would change the
// form in which the server sends values.
func sqlConfig(dsn string) (*mysql.Config, error) {
	cfg, err := mysqldsn.Parse(dsn)
	if err != nil {
		// err may quote the password
		return nil, errors.New("the dsn can't be read: write it as USER:PASSWORD@tcp(HOST:PORT)/DATABASE")
	}
	cfg.Logger = &mysql.NopLogger{} // the driver needs no log, because it returns all errors
	cfg.ParseTime = false
	cfg.InterpolateParams = true // saves a round trip, and the server sends values as text
	cfg.MultiStatements = false
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = queryTimeout
	}
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, err
	}
	cfg.Collation = ""
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	for name := range cfg.Params {
		switch strings.ToLower(name) {
		case "time_zone", "sql_mode", "transaction_isolation", "tx_isolation":
			delete(cfg.Params, name)
		}
	}
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["sql_mode"] = "''" // no ANSI_QUOTES, no PAD_CHAR_TO_FULL_LENGTH
	return cfg, nil
}

// replicationTLS returns the TLS configuration of the replication connection; nil if it uses no TLS. With tls=preferred
// in the DSN, it uses TLS only if the pool's connections do.
func replicationTLS(cfg *mysql.Config, poolHasTLS bool) *tls.Config {
	if cfg.TLS == nil || cfg.AllowFallbackToPlaintext && !poolHasTLS {
		return nil
	}
	return cfg.TLS.Clone()
}
