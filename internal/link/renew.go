package link

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Renew makes a pool, which must come from Open, replace its current connections. Later queries get new sessions, with
// the server's current privileges and settings. A caller that is using a connection keeps it until it is finished.
func Renew(db *sql.DB) {
	if d, ok := db.Driver().(driverOf); ok {
		d.connector.renewals.Add(1)
	}
}

// driverOf leads from a pool to its connector, which sql.DB does not show.
type driverOf struct {
	driver.Driver
	connector *connector
}

// Driver returns a driver through which the connector can be found again.
func (k *connector) Driver() driver.Driver { return driverOf{k.Connector.Driver(), k} }

// denials are the server's error codes for a missing privilege: on a database, a table, a column, globally, on a
// routine.
var denials = []uint16{1044, 1142, 1143, 1227, 1370}

// noted checks an error of a connection, and returns the error unchanged. If a privilege is missing, a GRANT may add it
// at any time, but not to an existing session, so the pool's connections are renewed.
func (c *conn) noted(err error) error {
	if err == nil {
		return nil
	}
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && slices.Contains(denials, refused.Number) {
		c.connector.renewals.CompareAndSwap(c.renewals, c.renewals+1)
	}
	return err
}

// QueryContext runs a query. After an error for a missing privilege, the pool renews its connections.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.session.QueryContext(ctx, query, args)
	return rows, c.noted(err)
}

// ExecContext runs a statement. After an error for a missing privilege, the pool renews its connections.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.session.ExecContext(ctx, query, args)
	return result, c.noted(err)
}

// PrepareContext prepares a statement. After an error for a missing privilege, the pool renews its connections.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	statement, err := c.session.PrepareContext(ctx, query)
	return statement, c.noted(err)
}
