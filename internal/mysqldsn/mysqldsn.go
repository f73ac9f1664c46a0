// Package mysqldsn reads DSNs that people wrote, in go-sql-driver's form.
package mysqldsn

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// networks are those that a server can be reached by.
var networks = []string{"tcp", "tcp4", "tcp6", "unix"}

// errNotRead says nothing of the DSN: it may have a password, and the driver's errors quote what they don't understand.
var errNotRead = errors.New("it is not USER:PASSWORD@tcp(HOST:PORT)/DATABASE?NAME=VALUE")

// Parse reads a DSN. The error quotes nothing of it.
//
// The driver takes whatever stands before the address for the name of a network, and says it in every error of a
// connection. Where the @ is missing that is the user and the password: so a network that nobody has is an error here.
func Parse(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil || !slices.Contains(networks, c.Net) {
		return nil, errNotRead
	}
	return c, nil
}
