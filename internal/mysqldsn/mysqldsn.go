// Package mysqldsn reads DSNs in go-sql-driver's form, as users write them.
package mysqldsn

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// networks are the networks through which a server can be reached.
var networks = []string{"tcp", "tcp4", "tcp6", "unix"}

// errNotRead shows nothing of the DSN, which may have a password. The driver's own errors quote the part that they
// can't parse.
var errNotRead = errors.New("it is not USER:PASSWORD@tcp(HOST:PORT)/DATABASE?NAME=VALUE")

// Parse reads a DSN. Its error does not quote the DSN.
//
// The driver takes any text before the address for the name of a network, and shows it in every connection error. If
// the @ is missing, that text is the user and password. So an unknown network is an error here.
func Parse(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil || !slices.Contains(networks, c.Net) {
		return nil, errNotRead
	}
	return c, nil
}
