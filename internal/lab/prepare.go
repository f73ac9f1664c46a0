package lab

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
)

// Prepare makes a database with the example's tables, and a user who has just the rights that the README asks for. It
// returns a client and the user's DSN.
func Prepare(t testing.TB, s *servers.Server, database, schema string) (client MySQL, dsn string) {
	t.Helper()
	MySQL{Server: s}.Exec(t,
		"CREATE DATABASE "+database+" CHARACTER SET utf8mb4", // MariaDB 10.11's default is latin1, which holds no 学校
		"CREATE USER IF NOT EXISTS replicator@'127.0.0.1' IDENTIFIED BY 'secret'",
		"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO replicator@'127.0.0.1'",
		"GRANT ALL ON "+database+".* TO replicator@'127.0.0.1'")
	client = MySQL{Server: s, Database: database}
	if schema != "" {
		client.Exec(t, Statements(schema)...)
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", s.Addr(), "replicator", "secret", database
	return client, c.FormatDSN()
}
