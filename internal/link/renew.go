package link

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Renew makes a pool that Open made use none of its present connections again: what begins now meets the server as it
// is now, with the rights and settings that it gives to new sessions. Whoever is using a connection keeps it until he
// is done.
func Renew(db *sql.DB) {
	if d, ok := db.Driver().(driverOf); ok {
		d.connector.renewals.Add(1)
	}
}

// driverOf is the driver of a connector, which it leads to.
type driverOf struct {
	driver.Driver
	connector *connector
}

// Driver implements driver.Connector.
func (k *connector) Driver() driver.Driver { return driverOf{k.Connector.Driver(), k} }

// denials are the server's refusals for want of a right: in a database, a table, a column, everywhere, for a routine.
var denials = []uint16{1044, 1142, 1143, 1227, 1370}

// noted returns an error that a connection met. Where a right was missing, a GRANT may give it at any time, but not to
// a session that has begun.
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

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.session.QueryContext(ctx, query, args)
	return rows, c.noted(err)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.session.ExecContext(ctx, query, args)
	return result, c.noted(err)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	statement, err := c.session.PrepareContext(ctx, query)
	return statement, c.noted(err)
}
