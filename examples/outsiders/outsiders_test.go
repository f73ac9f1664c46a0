package outsiders_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // for servertest

	"replicator/examples/outsiders"
	"replicator/internal/lab"
	"replicator/internal/launch"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }

const (
	rows  = 1000
	kills = 3
)

// TestEveryViewEqualsTheRowsThatOutsidersWrite lets sysbench write all the time. Meanwhile, the program is killed, and
// the table is replaced by another one, once while the program runs and once while it does not.
func TestEveryViewEqualsTheRowsThatOutsidersWrite(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			server := servertest.Own(t, kind)
			cache := lab.Redis{Server: servertest.Own(t, servers.Redis7)}
			db, dsn := lab.Prepare(t, server, "outsiders", "")
			s := sysbench{t, server}
			if out, err := s.command("oltp_write_only", fmt.Sprintf("--table-size=%d", rows),
				"prepare").CombinedOutput(); err != nil {
				t.Fatalf("sysbench prepare: %v\n%s", err, out)
			}
			p := lab.Build(t, "OUTSIDERS", outsiders.Config, "OUTSIDERS_DSN="+dsn, "OUTSIDERS_REDIS="+cache.Server.DSN("0"))
			p.Run("check")
			p.CatchUp()

			written := s.write("oltp_write_only", "oltp_read_write")
			for range kills {
				running := p.Start()
				lab.Pause(t, time.Duration(300+rand.IntN(700))*time.Millisecond)
				running.Kill()
			}
			running := p.Start()
			lab.Pause(t, 500*time.Millisecond)
			cutOver(t, db, "ADD COLUMN note VARCHAR(20) NULL")
			lab.Pause(t, 500*time.Millisecond)
			running.Kill()
			cutOver(t, db, "ADD KEY (pad)")
			written()
			p.CatchUp()

			held, differences, err := outsiders.Verify(t.Context(), db, cache)
			if err != nil {
				t.Fatal(err)
			}
			if len(differences) > 0 {
				t.Fatalf("%s\n%s", strings.Join(differences, "\n"), p.Log(10))
			}
			if held < 5*rows {
				t.Errorf("the views hold %d entries", held)
			}
			p.Run("verify")
			t.Logf("%d entries, all as the rows say", held)
		})
	}
}

// sysbench runs sysbench's own scripts on a server.
type sysbench struct {
	t      testing.TB
	server *servers.Server
}

func (s sysbench) command(script string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd, err := servers.Sysbench(s.t.Context(), s.server, "outsiders", script, append([]string{"--tables=1"}, args...)...)
	if err != nil {
		servertest.Unavailable(s.t, err)
	}
	return cmd
}

// write lets scripts write concurrently until the returned function is called. That function checks that each script
// wrote.
func (s sysbench) write(scripts ...string) (stop func()) {
	s.t.Helper()
	var started []*exec.Cmd
	var said []*strings.Builder
	for _, script := range scripts {
		// Send statements as text: a prepared statement would have to be prepared again after the table was replaced.
		cmd := s.command(script, fmt.Sprintf("--table-size=%d", rows), "--threads=2", "--rate=60",
			"--time=0", "--db-ps-mode=disable",
			"--rand-type=uniform", "--report-interval=1", "run")
		text := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = text, text
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		started, said = append(started, cmd), append(said, text)
	}
	return func() {
		s.t.Helper()
		for i, cmd := range started {
			_ = cmd.Process.Kill() // it never ends otherwise; Wait reports if it had already ended
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 ||
				!strings.Contains(said[i].String(), "tps:") {
				s.t.Errorf("sysbench ended by itself, or did nothing: %v\n%s", err, launch.LastLines(said[i].String(), 10))
			}
		}
	}
}

// cutOver changes the table as gh-ost and pt-online-schema-change do. A copy is altered and filled, and triggers apply
// new changes to it. One RENAME replaces the table by the copy, and the old table is dropped.
func cutOver(t testing.TB, db lab.MySQL, change string) {
	t.Helper()
	const into = "REPLACE INTO _sbtest1_new (id, k, c, pad) VALUES (NEW.id, NEW.k, NEW.c, NEW.pad)"
	db.Exec(t,
		"CREATE TABLE _sbtest1_new LIKE sbtest1",
		"ALTER TABLE _sbtest1_new "+change,
		"CREATE TRIGGER sbtest1_ins AFTER INSERT ON sbtest1 FOR EACH ROW "+into,
		"CREATE TRIGGER sbtest1_upd AFTER UPDATE ON sbtest1 FOR EACH ROW "+into,
		"CREATE TRIGGER sbtest1_del AFTER DELETE ON sbtest1 FOR EACH ROW DELETE IGNORE FROM _sbtest1_new WHERE id = OLD.id")
	const chunk = rows / 10
	for from := 0; from < 2*rows; from += chunk {
		copied := func() error {
			_, err := db.Rows(t.Context(),
				fmt.Sprintf("INSERT IGNORE INTO _sbtest1_new (id, k, c, pad) SELECT id, k, c, pad FROM sbtest1 "+
					"WHERE id > %d AND id <= %d LOCK IN SHARE MODE", from, from+chunk))
			return err
		}
		err := copied()
		// After a deadlock with a writer, try again, as those programs do.
		for err != nil && strings.Contains(err.Error(), "ERROR 1213") {
			err = copied()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(t, "RENAME TABLE sbtest1 TO _sbtest1_old, _sbtest1_new TO sbtest1", "DROP TABLE _sbtest1_old")
}
