package checkpoint

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Usable must leave no files in the directory, and also work while a store in it is open.
func TestWhetherADirectoryIsUsable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, unusable := range []string{"/proc/nope/x", file, filepath.Join(file, "x")} {
		if err := Usable(unusable); err == nil {
			t.Errorf("%s is usable", unusable)
		}
	}
	state := filepath.Join(dir, "a", "state")
	if err := Usable(state); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
	store, err := OpenFile(state)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := Usable(state); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(state, ".*")); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestWhetherADatabaseIsUsable(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		name := servertest.Database(t, server)
		dsn := server.DSN(name)
		admin, err := sql.Open("mysql", dsn)
		check(t, err)
		t.Cleanup(func() { check(t, admin.Close()) })
		user := name + "_u"
		c, err := mysql.ParseDSN(dsn)
		check(t, err)
		c.User, c.Passwd = user, "secret"
		grant := func(privileges string) error {
			t.Helper()
			for _, q := range []string{"DROP USER IF EXISTS " + user, "CREATE USER " + user + " IDENTIFIED BY 'secret'",
				"GRANT " + privileges + " ON " + name + ".* TO " + user} {
				_, err := admin.Exec(q)
				check(t, err)
			}
			return UsableMySQL(ctx, c.FormatDSN(), "replicator")
		}
		t.Cleanup(func() { _, _ = admin.Exec("DROP USER IF EXISTS " + user) })
		usable := func(is bool, err error) {
			t.Helper()
			if (err == nil) != is || err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("usable %t: %v", is, err)
			}
		}
		usable(false, grant("SELECT, INSERT, DELETE"))
		usable(true, grant("CREATE, SELECT, INSERT, DELETE"))
		var tables int
		count := admin.QueryRow("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?", name)
		check(t, count.Scan(&tables))
		if tables != 0 {
			t.Errorf("%d tables were made", tables)
		}
		s, err := OpenMySQL(ctx, c.FormatDSN(), "replicator")
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		usable(true, UsableMySQL(ctx, c.FormatDSN(), "replicator"))
		usable(false, grant("CREATE, SELECT, INSERT"))
		usable(false, grant("SELECT, INSERT, DELETE"))
	})
}
