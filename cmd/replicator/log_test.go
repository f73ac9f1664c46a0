package main

import (
	"fmt"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// accounts configures a table with one row per cell, whose versions are log positions, and a view of it.
const accounts = program + `
[tables.account]
key = "id"
` + mainSink + emailView + `
[views.mails]
from = "account"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = { email = "$email" }
`

const mails = "SELECT id, email FROM mails ORDER BY id"

// newAccounts creates the tables of accounts on a server after a RESET of its binlogs.
func newAccounts(t *testing.T, s *servers.Server) *lab {
	t.Helper()
	l := newBareLab(t, s)
	l.exec(cellTable, emailTable, "CREATE TABLE account (id INT PRIMARY KEY, email VARCHAR(100))",
		"CREATE TABLE mails (id INT PRIMARY KEY, email VARCHAR(100))")
	l.configure(source, accounts)
	return l
}

// reset resets the server's binlogs.
func (l *lab) reset() {
	l.t.Helper()
	if l.server.Kind.IsMariaDB() {
		l.exec("RESET MASTER")
	} else {
		l.exec("RESET BINARY LOGS AND GTIDS")
	}
}

// A running program notices a RESET of the source and refuses to continue. It still refuses after the source has
// written as much as before. The remedies in the error work.
func TestALogBegunAnewIsRefusedUntilSomebodyActs(t *testing.T) {
	t.Parallel()
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			l := newAccounts(t, servertest.Own(t, kind))
			l.reset() // MariaDB has no GTIDs after this
			l.must("run", "--until-caught-up")
			write := func(n int) {
				t.Helper()
				for i := range n {
					l.exec(fmt.Sprintf("REPLACE INTO account VALUES (%d, 'a%[1]d@x.org')", i))
				}
			}
			write(3)
			l.must("run", "--until-caught-up")
			l.expect(mails, "0 a0@x.org", "1 a1@x.org", "2 a2@x.org")

			l.exec("FLUSH BINARY LOGS", "FLUSH BINARY LOGS") // so that positions in the new log are lower
			write(3)
			l.env["DSN"] = l.dsn(l.server.Addr(), l.database) + "?readTimeout=3s" // a heartbeat each second
			p := l.running()
			l.caughtUp()
			l.reset()
			begin := l.position()
			refused := func() {
				t.Helper()
				l.failsWith("mails", "RESET", "replicator rebuild", "checkpoint set")
			}
			refused()
			p.stop()
			write(20)
			l.exec("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "UPDATE account SET email = 'b@x.org' WHERE id = 1")
			write(20)
			l.exec("UPDATE account SET email = 'b@x.org' WHERE id = 1", "DELETE FROM account WHERE id > 2")
			p = l.running()
			refused()
			p.stop()
			l.expect(mails, "0 a0@x.org", "1 a1@x.org", "2 a2@x.org")

			// Nothing was written between the old log's end and the new log's beginning, so the position is right.
			l.must("checkpoint", "set", "--pos", begin, "--yes")
			l.must("run", "--until-caught-up")
			l.expect(mails, "0 a0@x.org", "1 b@x.org", "2 a2@x.org")
			l.exec("DELETE FROM account WHERE id = 0", "UPDATE account SET email = 'c@x.org' WHERE id = 1")
			l.must("run", "--until-caught-up")
			l.expect(mails, "1 c@x.org", "2 a2@x.org")

			l.reset()
			l.exec("UPDATE account SET email = 'd@x.org' WHERE id = 2", "DELETE FROM account WHERE id = 1")
			p = l.running()
			l.remedied("mails", "RESET")
			l.caughtUp()
			p.stop()
			l.expect(mails, "2 d@x.org")

			l.reset()
			l.exec("UPDATE account SET email = 'e@x.org' WHERE id = 2")
			l.configure(strings.Replace(source, "[source]", "[source]\non_lost = \"rebuild\"", 1), accounts)
			l.must("run", "--until-caught-up")
			l.expect(mails, "2 e@x.org")
		})
	}
}

// An asynchronous failover loses transactions that the replica did not have yet. Views that show them must fail, even
// if they were applied within one interval of checkpoints, and also after a restart.
func TestAFailoverThatLostWhatWasReadIsNoticed(t *testing.T) {
	t.Parallel()
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			var args []string
			if kind.IsMariaDB() {
				args = []string{"--log-slave-updates"}
			}
			primary, replica, sink := servertest.Own(t, kind, args...), servertest.Own(t, kind,
				args...), servertest.Shared(t, kind)
			l := newAccounts(t, sink)
			first, second := l.connect(primary, ""), l.connect(replica, "")
			l.server, l.db = primary, first
			second.SetMaxOpenConns(1)
			if kind.IsMariaDB() {
				execAll(t, second, "RESET MASTER",
					fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', "+
						"MASTER_USE_GTID=slave_pos, MASTER_SSL=0", primary.Port), "START SLAVE")
			} else {
				execAll(t, second, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', "+
					"SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", primary.Port), "START REPLICA")
			}
			execAll(t, first, "CREATE DATABASE app", cellTableIn("app"),
				"CREATE TABLE app.account (id INT PRIMARY KEY, email VARCHAR(100))",
				fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s'", l.user, password),
				fmt.Sprintf("GRANT ALL ON *.* TO %s@'%%'", l.user),
				"INSERT INTO app.account VALUES (1, 'a@x.org')")
			k := servertest.NewLink(t, primary.Addr())
			l.env["SOURCE"] = l.dsn(k.Address(), "app")
			long := strings.Replace(accounts, `interval = "100ms"`, `interval = "1h"`, 1)
			configure := func(onLost string) {
				l.configure("[source]\ndsn = \"${SOURCE}\"\non_lost = \""+onLost+"\"\n", long)
			}
			configure("stop")
			p := l.running()
			l.caughtUp()
			execAll(t, first, "INSERT INTO app.account VALUES (2, 'b@x.org')")
			eventually(t, func() error {
				got, err := tryRows(t.Context(), second, "SELECT COUNT(*) FROM app.account")
				if err != nil || got[0] != "2" {
					return fmt.Errorf("the replica has %v, %w", got, err)
				}
				return nil
			})
			if kind.IsMariaDB() {
				execAll(t, second, "STOP SLAVE")
			} else {
				execAll(t, second, "STOP REPLICA")
			}
			execAll(t, first, "INSERT INTO app.account VALUES (3, 'lost@x.org')")
			l.caughtUp()

			k.Lead(replica.Addr())
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			l.failsWith("mails", "lacks transactions that were read", "replicator rebuild")
			p.kill()
			execAll(t, second, "INSERT INTO app.account VALUES (4, 'd@x.org')", "INSERT INTO app.account VALUES (5, 'e@x.org')")
			p = l.running()
			s := l.reaches("mails", "failed") // on MariaDB, another transaction now has the lost one's number
			if !strings.Contains(s.Error, "no longer has its log") {
				t.Errorf("after a restart: %s", s.Error)
			}
			p.stop()
			configure("rebuild")
			p = l.running()
			l.server, l.db = replica, second
			l.caughtUp()
			if got := rowsOf(t, l.connect(sink, l.database), mails); strings.Join(got,
				", ") != "1 a@x.org, 2 b@x.org, 4 d@x.org, 5 e@x.org" {
				t.Errorf("the view holds %q", got)
			}
			p.stop()
		})
	}
}

// cellTableIn returns the statement cellTable for another database.
func cellTableIn(database string) string {
	return strings.Replace(cellTable, "TABLE cell", "TABLE "+database+".cell", 1)
}
