package link

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// rightless makes a pool of a user who may connect to a database, but may not read the table that root has there.
func rightless(t *testing.T, s *servers.Server) (db *sql.DB, root func(query string), database, user string) {
	t.Helper()
	database = servertest.Database(t, s)
	user = "'u" + database + "'@'%'"
	all, err := sql.Open("mysql", s.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	root = func(query string) {
		t.Helper()
		if _, err := all.ExecContext(context.WithoutCancel(t.Context()), query); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		root("DROP USER " + user)
		all.Close()
	})
	root("CREATE TABLE t (id INT)")
	root("CREATE USER " + user + " IDENTIFIED BY 'geheim'")
	root("GRANT INSERT ON " + database + ".* TO " + user)
	c, err := mysql.ParseDSN(s.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	c.User, c.Passwd = "u"+database, "geheim"
	if db, err = Open(c, Options{Silence: silence}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, root, database, user
}

// TestARefusalEndsWithTheGrant: a session keeps the privileges on its database that it began with. So the server would
// refuse the session's queries for as long as it lives.
func TestARefusalEndsWithTheGrant(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for how, read := range map[string]func(context.Context, *sql.DB) error{
			"query": func(ctx context.Context, db *sql.DB) error {
				rows, err := db.QueryContext(ctx, "SELECT * FROM t")
				if err == nil {
					err = rows.Close()
				}
				return err
			},
			"exec": func(ctx context.Context, db *sql.DB) error {
				_, err := db.ExecContext(ctx, "DO (SELECT COUNT(*) FROM t)")
				return err
			},
			"prepared": func(ctx context.Context, db *sql.DB) error {
				statement, err := db.PrepareContext(ctx, "SELECT * FROM t")
				if err == nil {
					err = statement.Close()
				}
				return err
			},
		} {
			t.Run(how, func(t *testing.T) {
				db, root, database, user := rightless(t, s)
				hold(t, db, 4)
				if err := read(t.Context(), db); err == nil {
					t.Fatal("it is permitted")
				}
				root("GRANT SELECT ON " + database + ".* TO " + user)
				if err := read(t.Context(), db); err != nil {
					t.Errorf("after the GRANT: %v", err)
				}
			})
		}
	})
}

// TestWhoBeginsAnewUsesNoEarlierConnection: after Renew, the pool uses neither an idle connection again, nor one that
// was in use.
func TestWhoBeginsAnewUsesNoEarlierConnection(t *testing.T) {
	db, _ := pool(t, servertest.Shared(t, servers.MySQL))
	earlier := hold(t, db, 4)
	used, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	Renew(db)
	if err := used.PingContext(t.Context()); err != nil {
		t.Errorf("the connection that is used: %v", err)
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range hold(t, db, 6) {
		if slices.Contains(earlier, id) {
			t.Errorf("connection %d is used again", id)
		}
	}
}
