package lab

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
)

// An example's database accounts: reader reads the source, and keeper maintains the views.
const (
	reader = "replicator"
	keeper = "replicator_sink"
)

// Prepare creates a database with the example's tables, and two users with exactly the rights that the README requires
// for a source and for a sink. It returns a client and the first user's DSN. Build gives the second user to the sinks.
func Prepare(t testing.TB, s *servers.Server, database, schema string) (client MySQL, dsn string) {
	t.Helper()
	MySQL{Server: s}.Exec(t,
		"CREATE DATABASE "+database+" CHARACTER SET utf8mb4", // MariaDB 10.11's default is latin1, which lacks 学校
		"CREATE USER IF NOT EXISTS "+reader+"@'127.0.0.1' IDENTIFIED BY 'secret'",
		"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+reader+"@'127.0.0.1'",
		"CREATE USER IF NOT EXISTS "+keeper+"@'127.0.0.1' IDENTIFIED BY 'secret'",
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON "+database+".* TO "+keeper+"@'127.0.0.1'")
	client = MySQL{Server: s, Database: database}
	if schema != "" {
		client.Exec(t, Statements(schema)...)
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", s.Addr(), reader, "secret", database
	return client, c.FormatDSN()
}

// ForSink returns the DSN from Prepare with the account that maintains the views.
func ForSink(dsn string) string { return strings.Replace(dsn, reader+":", keeper+":", 1) }

// withSinkAccount changes a configuration so that its sinks connect with the account that maintains the views. For each
// environment variable with a DSN from Prepare, it adds a variable with that account's DSN, which the sinks then use.
// It returns the configuration and all variables.
func withSinkAccount(config string, env []string) (string, []string) {
	at := strings.Index(config, "\n[sinks.")
	if at < 0 {
		return config, env
	}
	source, sinks := config[:at], config[at:]
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if own := name + "_OF_SINK"; strings.HasPrefix(value, reader+":") {
			sinks, env = strings.ReplaceAll(sinks, "${"+name+"}", "${"+own+"}"), append(env, own+"="+ForSink(value))
		}
	}
	return source + sinks, env
}
