package canal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// An ALTER may change which rows form a cell, or what their version is. Rows after the ALTER must not be delivered by
// the old rule. If a reader starts before the ALTER, the rows before it must not be delivered by the new rule.
func TestAnAlterThatMakesCellsOrVersionsOthersEndsReading(t *testing.T) {
	versions := replicator.Table{Key: []string{"k"}, Version: "v"}
	plain := replicator.Table{Key: []string{"k"}}
	cases := []struct {
		name    string
		table   replicator.Table
		columns string
		alter   string
		others  bool
		refused bool // rows before the ALTER can't be read after it
	}{
		{"a unique key is added", versions, "k INT NOT NULL, v BIGINT", "ALTER TABLE @ ADD UNIQUE one (k)", true, false},
		{"a unique key is made an index", versions, "k INT NOT NULL, v BIGINT",
			"CREATE UNIQUE INDEX one ON @ (k)", true, false},
		{"a unique key is dropped", versions, "k INT NOT NULL, v BIGINT, UNIQUE one (k)", "DROP INDEX one ON @", true, false},
		{"a unique key of other columns", versions, "k INT NOT NULL, v BIGINT",
			"ALTER TABLE @ ADD UNIQUE one (k, v)", false, false},
		{"a unique key where nothing is a version", plain, "k INT NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ ADD UNIQUE one (k)", false, false},
		{"a version that becomes a date", versions, "k INT NOT NULL, v BIGINT",
			"ALTER TABLE @ MODIFY v DATETIME", true, false},
		{"a number that becomes text", plain, "k INT NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ MODIFY k VARCHAR(20) NOT NULL", true, true},
		{"a decimal that becomes a number", plain, "k DECIMAL(10,2) NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ MODIFY k BIGINT NOT NULL", true, true},
		{"a decimal of more digits", plain, "k DECIMAL(10,2) NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ MODIFY k DECIMAL(12,4) NOT NULL", true, false},
		{"bytes that are padded to more", plain, "k BINARY(2) NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ MODIFY k BINARY(4) NOT NULL", true, false},
		{"a number that becomes larger", plain, "k INT NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ MODIFY k BIGINT UNSIGNED NOT NULL", false, false},
		{"a text that becomes longer", plain, "k VARCHAR(20) NOT NULL UNIQUE, v BIGINT",
			"ALTER TABLE @ MODIFY k VARCHAR(200) NOT NULL", false, false},
		{"a column more", plain, "k INT NOT NULL UNIQUE, v BIGINT", "ALTER TABLE @ ADD w INT", false, false},
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for i, c := range cases {
			c.table.Name = "t" + string(rune('a'+i))
			b.exec("CREATE TABLE " + c.table.Name + " (id INT PRIMARY KEY, " + c.columns + ")")
			src := b.source(c.table)
			from := b.latest(src)
			before, err := src.Identities(testContext(t), []string{c.table.Name})
			if err != nil {
				t.Fatal(err)
			}
			x := b.read(b.open(src, from))
			b.exec("INSERT INTO " + c.table.Name + " (id, k, v) VALUES (1, '12', 20240101)")
			if got := x.upTo(b.latest(src)); len(got) != 1 {
				t.Errorf("%s: %d changes before the ALTER", c.name, len(got))
			}
			b.exec(strings.ReplaceAll(c.alter, "@", c.table.Name),
				"INSERT INTO "+c.table.Name+" (id, k, v) VALUES (2, '13', 20230101)")
			after, err := src.Identities(testContext(t), []string{c.table.Name})
			if others := before[c.table.Name] != after[c.table.Name]; others != c.others || err != nil {
				t.Errorf("%s: %q, then %q (%v)", c.name, before, after, err)
			}
			if !c.others {
				if got := x.upTo(b.latest(src)); len(got) != 2 {
					t.Errorf("%s: %d changes", c.name, len(got))
				}
				x.end()
				continue
			}
			if err := x.failure(); !errors.Is(err, replicator.ErrRedefined) || !replicator.IsFatal(err) || len(x.all()) != 1 {
				t.Errorf("%s: %d changes, then %v", c.name, len(x.all()), err)
			}
			if !c.refused {
				continue
			}
			again := b.read(b.open(src, from))
			if err := again.failure(); !errors.Is(err, replicator.ErrRedefined) || len(again.all()) != 0 {
				t.Errorf("%s, before the ALTER, read after it: %d changes, then %v", c.name, len(again.all()), err)
			}
		}
	})
}

func TestKeysOfTwoTablesAreComparedByWhatTheyTellApart(t *testing.T) {
	types := map[string]string{
		"int": "INT", "big": "BIGINT UNSIGNED", "dec": "DECIMAL(10,2)", "dec4": "DECIMAL(10,4)", "bin": "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin",
		"utf": "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		"ci":  "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
		"raw": "BINARY(16)", "var": "VARBINARY(16)", "day": "DATE", "time": "DATETIME",
	}
	same := []string{"int big", "bin utf", "raw var"}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		var tables []replicator.Table
		for name, declared := range types {
			b.exec("CREATE TABLE `" + name + "` (k " + declared + " PRIMARY KEY)")
			tables = append(tables, replicator.Table{Name: name, Key: []string{"k"}})
		}
		src := b.source(tables...)
		for one := range types {
			for other := range types {
				err := src.SameKeys(testContext(t), []string{one, other})
				want := one == other || slices.Contains(same, one+" "+other) || slices.Contains(same, other+" "+one)
				if (err == nil) != want || err != nil && !(errors.Is(err, replicator.ErrOtherKeys) &&
					strings.Contains(err.Error(), one+".k is")) {
					t.Errorf("%s and %s: %v", one, other, err)
				}
			}
		}
	})
}

// MariaDB's information_schema omits a table that an ALTER is replacing, if the asking session holds a lock.
func TestATableIsReadWholeWhileItIsAltered(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE cell (k INT PRIMARY KEY, other INT, UNIQUE KEY (other))")
		src := b.source(replicator.Table{Name: "cell", Database: b.database, Table: "cell", Key: []string{"k"}})
		done := make(chan error)
		go func() {
			for range 60 {
				for _, ddl := range []string{"ADD COLUMN note INT FIRST", "DROP COLUMN note",
					"MODIFY other BIGINT", "MODIFY other INT"} {
					if _, err := b.db.Exec("ALTER TABLE cell " + ddl); err != nil {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
		for {
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return
			default:
			}
			shape, err := readSchema(testContext(t), src.db, &src.cfg.Tables[0])
			if err != nil {
				t.Error(err)
			} else if len(shape.columns) < 2 || len(shape.unique) != 2 {
				t.Errorf("%d columns, unique keys %q", len(shape.columns), shape.unique)
			}
		}
	})
}

// A table's views are refused if several rows may have one key and no version tells which row is the newest. They are
// refused at the start, in check, and when the unique key is dropped while they run.
func TestAKeyThatIsNotUniqueNeedsAVersion(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for _, c := range []struct {
			name, columns string
			table         replicator.Table
			drop          string // makes the key not unique later; "": it is not unique from the start
			mend          string // the end of the error, after the table's name
		}{
			{"an index", "id INT PRIMARY KEY, k INT NOT NULL, KEY (k)", replicator.Table{Key: []string{"k"}}, "",
				"ADD UNIQUE KEY (`k`)"},
			{"half of a key", "k INT, l INT, PRIMARY KEY (k, l)", replicator.Table{Key: []string{"k"}}, "",
				"ADD UNIQUE KEY (`k`)"},
			{"a sort that may be NULL", "k INT NOT NULL, sort VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, UNIQUE (k, sort)",
				replicator.Table{Key: []string{"k"}, Column: "sort"}, "",
				"MODIFY `sort` varchar(9) COLLATE ascii_bin NOT NULL, ADD UNIQUE KEY (`k`, `sort`)"},
			{"a unique key that goes", "id INT PRIMARY KEY, k INT NOT NULL, UNIQUE one (k)", replicator.Table{Key: []string{"k"}},
				"ALTER TABLE @ DROP INDEX one", "ADD UNIQUE KEY (`k`)"},
		} {
			c.table.Name = "x"
			b.exec("DROP TABLE IF EXISTS x", "CREATE TABLE x ("+c.columns+")")
			src := b.source(c.table)
			var err error
			if c.drop == "" {
				_, err = src.Open(testContext(t), []replicator.Position{b.latest(src)})
			} else {
				x := b.read(b.open(src, b.latest(src)))
				b.exec(strings.ReplaceAll(c.drop, "@", "x"))
				err = x.failure()
			}
			if !replicator.IsFatal(err) || !replicator.IsOfViews(err) {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			mend := "ALTER TABLE `" + b.database + "`.`x` " + c.mend
			if !strings.HasSuffix(err.Error(), mend) || !strings.Contains(err.Error(), "name its increasing column") {
				t.Errorf("%s: %v", c.name, err)
			}
			failed := false
			for _, f := range src.Check(testContext(t)) {
				failed = failed || f.What == "table x" && f.Level == replicator.Fail && strings.Contains(f.Detail, mend)
			}
			if !failed {
				t.Errorf("%s: check says nothing of it", c.name)
			}
			b.exec(mend)
			if _, err := src.Open(testContext(t), []replicator.Position{b.latest(src)}); err != nil {
				t.Errorf("%s, and mended: %v", c.name, err)
			}
		}
	})
}
