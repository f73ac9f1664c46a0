package mysql_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

const namesTable = "CREATE TABLE names (email LONGTEXT, id VARBINARY(40) PRIMARY KEY)"

// TestASettingThatWasMendedCounts: a session keeps the max_allowed_packet from its beginning, so it would go on
// refusing values that the server now accepts.
func TestASettingThatWasMendedCounts(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			db, dsn := database(t, servertest.Own(t, kind), namesTable)
			exec(t, db, "SET GLOBAL max_allowed_packet = 65536")
			sink := newSink(t, dsn)
			put := func(version int64, text string, times int) []replicator.Rejected {
				t.Helper()
				target := openTarget(t, sink, view("row", "names", "email"))
				long := userOp(1, version, 1, strings.Repeat(text, times))
				applied, err := target.Apply(t.Context(), []replicator.Op{long})
				if err != nil {
					t.Fatal(err)
				}
				return applied.Rejected
			}
			for _, c := range []struct {
				text            string
				times, rejected int
			}{{"x", 300_000, 1}, {"x", 60_000, 0}, {"'", 40_000, 1}} {
				if rejected := put(1, c.text, c.times); len(rejected) != c.rejected {
					t.Fatalf("%d of %q: rejected: %v", c.times, c.text, rejected)
				}
			}
			exec(t, db, "SET GLOBAL max_allowed_packet = 67108864")
			if rejected := put(2, "x", 300_000); len(rejected) != 0 {
				t.Errorf("rejected: %v", rejected)
			}
		})
	}
}

// TestAServerThatTakesNoWritesIsCalledThat: the driver reports the server's refusal as a lost connection.
func TestAServerThatTakesNoWritesIsCalledThat(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			db, dsn := database(t, servertest.Own(t, kind), namesTable)
			_, limited := limitedUser(t, db, dsn, map[string]string{"*": "ALL"})
			exec(t, db, "SET GLOBAL read_only = ON")
			sink := newSink(t, limited)
			views := []*replicator.View{view("row", "names", "email")}
			if _, err := sink.Open(t.Context(), "", views); err == nil || replicator.IsFatal(err) ||
				!strings.Contains(err.Error(), "read_only") || strings.Contains(err.Error(), "bad connection") {
				t.Errorf("Open says %v", err)
			}
			found := sink.Check(t.Context(), views)
			if len(found) != 1 || found[0].Level != replicator.Fail || !strings.Contains(found[0].Fix, "read_only") {
				t.Errorf("check says %v", found)
			}
			exec(t, db, "SET GLOBAL read_only = OFF")
			if found := sink.Check(t.Context(), views); slices.ContainsFunc(found, func(f replicator.Finding) bool {
				return f.Level == replicator.Fail
			}) {
				t.Errorf("check says %v", found)
			}
		})
	}
}

func TestCheckSaysThatTheServerIsFull(t *testing.T) {
	db, dsn := database(t, servertest.Own(t, servers.MySQL))
	_, limited := limitedUser(t, db, dsn, map[string]string{"*": "ALL"})
	exec(t, db, "SET GLOBAL max_connections = 1") // the administrator holds the only connection
	sink := newSink(t, limited)
	found := sink.Check(t.Context(), nil)
	exec(t, db, "SET GLOBAL max_connections = 100")
	if len(found) != 1 || found[0].Level != replicator.Fail || !strings.Contains(found[0].Fix, "max_connections") {
		t.Errorf("check says %v", found)
	}
}

// TestATableThatIsAlteredIsLookedAtAnew: with an additional unique key, the server would write one entity's values into
// another entity's row without an error.
func TestATableThatIsAlteredIsLookedAtAnew(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			db, dsn := database(t, servertest.Shared(t, kind),
				"CREATE TABLE names (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY, n INT AUTO_INCREMENT UNIQUE)",
				"CREATE TABLE others (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY)")
			sink := newSink(t, dsn)
			views := []*replicator.View{view("row", "others", "email"), view("row", "names", "email")}
			target := openTarget(t, sink, views...)
			if _, err := target.Apply(t.Context(), []replicator.Op{userOp(1, 1, 2, "a")}); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "ALTER TABLE names ADD UNIQUE (email)")
			at := replicator.Standing{Position: replicator.Position{Order: 5, Token: "x"}}
			err := target.Mark(t.Context(), at)
			groups, _ := replicator.Troubled(views, err)
			if len(groups) != 1 || len(groups[0]) != 1 || groups[0][0] != views[1] || replicator.IsFatal(err) {
				t.Errorf("Mark says %v", err)
			}
			if _, err := sink.Open(t.Context(), "", views); !replicator.IsFatal(err) {
				t.Errorf("Open says %v", err)
			}
			exec(t, db, "ALTER TABLE names DROP INDEX email")
			target = openTarget(t, sink, views...)
			at.Position.Order = 6
			if err := target.Mark(t.Context(), at); err != nil {
				t.Errorf("Mark says %v", err)
			}
		})
	}
}

// TestATableThatIsDroppedIsLookedAtAnew: Mark only asks to open the view again. Open says that the table was dropped,
// and what to do.
func TestATableThatIsDroppedIsLookedAtAnew(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			server := servertest.Shared(t, kind)
			db, dsn := database(t, server, namesTable)
			elsewhere := servertest.Database(t, server)
			exec(t, db, "CREATE TABLE "+elsewhere+".others LIKE names")
			for dropped, statement := range map[string]string{"names": "DROP TABLE names",
				"others": "DROP DATABASE " + elsewhere} {
				sink := newSink(t, dsn)
				mysql.LookAtEachOpening(sink)
				v := view("row", "names", "email")
				if v.Name = dropped; dropped == "others" {
					v = view("row", elsewhere+".others", "email")
				}
				views := []*replicator.View{v}
				at := replicator.Standing{Position: replicator.Position{Order: 5, Token: "x"}}
				if err := openTarget(t, sink, views...).Mark(t.Context(), at); err != nil {
					t.Fatal(err)
				}
				target := openTarget(t, sink, views...)
				exec(t, db, statement)
				err := target.Mark(t.Context(), at)
				if !replicator.IsOfViews(err) || replicator.IsFatal(err) || errors.Is(err, replicator.ErrSinkLost) {
					t.Errorf("%s: Mark says %v", statement, err)
				}
				if _, err := sink.Open(t.Context(), "", views); !errors.Is(err, replicator.ErrSinkLost) ||
					!strings.Contains(err.Error(), "was dropped") {
					t.Errorf("%s: Open says %v", statement, err)
				}
			}
		})
	}
}
