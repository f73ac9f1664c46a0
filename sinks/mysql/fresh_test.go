package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
	"replicator/sinks/mysql"
)

// A table that was empty when its view was registered is filled without looking for old rows. Rows that another program
// writes there meanwhile are replaced anyway.
func TestAFirstFillReplacesWhatIsWrittenByHandMeanwhile(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE emails (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (email, id))",
			"CREATE TABLE names (email VARCHAR(50), id BINARY(16) PRIMARY KEY)")
		sink := newSink(t, dsn)
		views := []*replicator.View{view("index", "emails", "email"), view("row", "names", "email")}
		target := openTarget(t, sink, views...)
		var ops []replicator.Op
		for n := range 5 {
			ops = append(ops, userOp(n, 1, 2, "new"))
		}
		for _, table := range []string{"emails", "names"} {
			exec(t, db, "INSERT INTO "+table+" VALUES ('by hand', ?)", []byte("user 3          "))
		}
		applied, err := target.Apply(t.Context(), ops)
		if err != nil || len(applied.Rejected) > 0 {
			t.Fatalf("%+v, %v", applied, err)
		}
		for _, v := range views {
			held := read(t, db, v)
			if len(held) != len(ops) {
				t.Errorf("view %s holds %v", v.Name, held)
			}
			for key, value := range held {
				if strings.Contains(key+value, "by hand") {
					t.Errorf("view %s: %s %s", v.Name, key, value)
				}
			}
		}
	})
}

func TestOnlyAFirstFillIntoAnEmptyTableLeavesNothingUnclaimed(t *testing.T) {
	for _, c := range []struct {
		name                string
		before, again, done bool
		unclaimed           int
	}{
		{name: "empty"},
		{name: "not empty", before: true, unclaimed: 1},
		{name: "opened again", again: true, unclaimed: 1},
		{name: "filled", done: true, unclaimed: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, dsn := database(t, servertest.MySQL(t), "CREATE TABLE emails (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (email, id), KEY (id))")
			sink := newSink(t, dsn)
			byHand := func() { exec(t, db, "INSERT INTO emails VALUES ('by hand', ?)", []byte("user 9          ")) }
			if c.before {
				byHand()
			}
			target := openTarget(t, sink, view("index", "emails", "email"))
			if c.again {
				target = openTarget(t, sink, view("index", "emails", "email"))
			}
			if _, err := target.Apply(t.Context(), []replicator.Op{userOp(1, 1, 1, "a")}); err != nil {
				t.Fatal(err)
			}
			if c.done {
				if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 1, Token: "1"}}); err != nil {
					t.Fatal(err)
				}
			}
			if !c.before {
				byHand()
			}
			cells, _, err := target.(replicator.Tidier).Unclaimed(t.Context(), 0, "", 100)
			if err != nil || len(cells) != c.unclaimed {
				t.Errorf("%v, %v", cells, err)
			}
		})
	}
}

// The partitions of a topic are sources that can't be asked for types. A source that has seen no cell yet doesn't know
// that the keys are texts. It must still not mistake the other sources' entries for orphans.
func TestWhatOtherSourcesHoldIsClaimedWhateverThisOneKnowsOfTheKeys(t *testing.T) {
	db, dsn := database(t, servertest.MySQL(t), "CREATE TABLE names (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY)")
	sink := newSink(t, dsn)
	views := []*replicator.View{view("row", "names", "email")}
	var targets []replicator.Target
	for _, source := range []string{"topic/0", "topic/1"} {
		target, err := sink.Open(t.Context(), source, views)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	key, err := replicator.MakeKey("a text")
	if err != nil {
		t.Fatal(err)
	}
	op := userOp(1, 1, 1, "a")
	op.Cell.Key = key
	if _, err := targets[0].Apply(t.Context(), []replicator.Op{op}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "INSERT INTO names VALUES ('by hand', 'nobody')")
	for i, target := range targets {
		cells, _, err := target.(replicator.Tidier).Unclaimed(t.Context(), 0, "", 100)
		if err != nil || len(cells) != 1 || cells[0].Key == key {
			t.Errorf("to source %d unclaimed are %v, %v", i, cells, err)
		}
	}
}

// A sweep finds a key in a view although the other source's cells contribute nothing there any more, and re-reads it.
// The cells' rows in other views stay. The re-read removes an entry that no source's cells show.
func TestALookLeavesWhatOtherSourcesShow(t *testing.T) {
	db, dsn := database(t, servertest.MySQL(t), "CREATE TABLE names (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY)",
		"CREATE TABLE by_email (email VARCHAR(50), id VARBINARY(40), PRIMARY KEY (id, email))")
	sink := newSinkOf(t, mysql.Config{Name: "main", DSN: dsn, Tables: tables,
		Sources: judge.Sources{Shards: []string{"p0", "p1"}}})
	views := []*replicator.View{view("row", "names", "email"), view("index", "by_email", "email")}
	var targets []replicator.Target
	for _, source := range []string{"p0", "p1"} {
		target, err := sink.Open(t.Context(), source, views)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	put := userOp(1, 1, 2, "a")
	put.Values[1].Entries = nil // it no longer has an e-mail address
	if _, err := targets[0].Apply(t.Context(), []replicator.Op{put}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "INSERT INTO names SELECT 'by hand', 'nobody'")
	exec(t, db, "INSERT INTO by_email SELECT 'old', id FROM names")
	cells, _, err := targets[1].(replicator.Tidier).Unclaimed(t.Context(), 1, "", 100)
	if err != nil || len(cells) != 2 {
		t.Fatalf("unclaimed are %v, %v", cells, err)
	}
	var looks []replicator.Op
	for _, c := range cells {
		looks = append(looks, replicator.Op{Cell: c, Version: replicator.NoVersion, AsOf: 9, Rewrite: true,
			Values: []replicator.Value{{View: 0}, {View: 1}}})
	}
	if _, err := targets[1].Apply(t.Context(), looks); err != nil {
		t.Fatal(err)
	}
	put.AsOf, put.Rewrite = 9, true // the source that has the row re-reads it, too, and finds only its own rows
	if _, err := targets[0].Apply(t.Context(), []replicator.Op{put}); err != nil {
		t.Fatal(err)
	}
	var names, emails string
	err = db.QueryRow("SELECT COALESCE(GROUP_CONCAT(email), ''), (SELECT COUNT(*) FROM by_email) FROM names").
		Scan(&names, &emails)
	if err != nil || names != "a" || emails != "0" {
		t.Errorf("the names are %q, and there are %s e-mail addresses (%v)", names, emails, err)
	}
}

// Each source is read independently. If an entity moves, the delete at its old source may be applied after the insert
// at its new one.
func TestADeleteLeavesWhatHasMovedToAnotherSource(t *testing.T) {
	db, dsn := database(t, servertest.MySQL(t), "CREATE TABLE names (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY)",
		"CREATE TABLE by_email (email VARCHAR(50), id VARBINARY(40), PRIMARY KEY (id, email))")
	sink := newSinkOf(t, mysql.Config{Name: "main", DSN: dsn, Tables: tables,
		Sources: judge.Sources{Shards: []string{"from", "to"}}})
	apply := func(source string, op replicator.Op, want string) {
		t.Helper()
		target, err := sink.Open(t.Context(), source, []*replicator.View{view("row", "names", "email"),
			view("index", "by_email", "email")})
		if err == nil {
			_, err = target.Apply(t.Context(), []replicator.Op{op})
		}
		var shown string
		err = errors.Join(err, db.QueryRow("SELECT CONCAT_WS(' ', (SELECT GROUP_CONCAT(email) FROM names), "+
			"(SELECT GROUP_CONCAT(email) FROM by_email))").Scan(&shown))
		if err != nil || shown != want {
			t.Errorf("the views show %q, want %q (%v)", shown, want, err)
		}
	}
	gone := userOp(1, 1, 1, "")
	gone.Version, gone.Order, gone.AsOf, gone.Values = replicator.NoVersion, 0, 9, []replicator.Value{{View: 0}, {View: 1}}
	apply("from", userOp(1, 5, 2, "a"), "a a")
	apply("to", userOp(1, 1, 2, "b"), "a a")
	apply("from", gone, "b b")
	apply("to", gone, "")
	gone.AsOf = 19 // it moves back to where it was once
	apply("to", userOp(1, 15, 2, "c"), "c c")
	apply("from", userOp(1, 12, 2, "d"), "c c")
	apply("to", gone, "d d")
	apply("from", gone, "")
	for i, old := range []string{"", "old"} { // sources from before there were shards, or before one was renamed
		at := int64(20 * (i + 1))
		gone.AsOf = at + 9
		apply(old, userOp(1, at+2, 2, "e"), "e e")
		apply("to", userOp(1, at+3, 2, "f"), "f f")
		apply("to", gone, "")
	}
}
