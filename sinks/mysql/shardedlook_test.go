package mysql_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/sinks/mysql"
)

// everyPage reads all pages of cells.
func everyPage(t testing.TB, read func(after string) ([]replicator.Cell, string, error)) map[replicator.Cell]bool {
	t.Helper()
	found := map[replicator.Cell]bool{}
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		cells, next, err := read(after)
		if err != nil || pages > 100 {
			t.Fatal(pages, err)
		}
		for _, c := range cells {
			found[c] = true
		}
		after = next
	}
	return found
}

func TestStrayAndMissingCopiesInAnyShardAreFoundAndRepaired(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		m := makeShards(t, s, 3,
			append([]string{"CREATE TABLE tags (tag VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (id, tag))"},
				movingDDL...)...)
		tags := view("index", "tags", "tag")
		tags.Fields[0].Path = "tags[]"
		shardBy(tags, "tag")
		views := append(movingViews(), tags)
		target := m.open(t, views...)
		var ops []replicator.Op
		for n := range 20 {
			op := userOp(n, 1, 3, fmt.Sprint("user", n))
			op.Values[2].Entries = userOp(n, 1, 1, "a", "b", "c", "d").Values[0].Entries
			ops = append(ops, op)
		}
		ops = append(ops, userOp(20, replicator.NoVersion, 3)) // the source has no such user
		ops[20].AsOf = 1
		applyAll(t, target, ops...)
		type at struct{ op, view int }
		expect := func(when string, want map[at]replicator.DifferenceKind) {
			t.Helper()
			differences, err := target.Compare(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			got := map[at]replicator.DifferenceKind{}
			for _, d := range differences {
				got[at{d.Op, d.View}] = d.Kind
			}
			if len(got) < len(differences) || !maps.Equal(got, want) {
				t.Errorf("%s: differences are %v (%d), and not %v", when, got, len(differences), want)
			}
		}
		expect("at first", map[at]replicator.DifferenceKind{})
		id := func(n int) []byte { return fmt.Appendf(nil, "user %-11d", n) }
		for shard, db := range m.dbs {
			for _, v := range views[:2] {
				var here int
				if err := db.QueryRow("SELECT COUNT(*) FROM "+settings(v).Table+" WHERE id = ?", id(3)).Scan(&here); err != nil {
					t.Fatal(err)
				}
				if here == 0 {
					exec(t, db, "INSERT INTO "+settings(v).Table+" (id, email) VALUES (?, 'user3')", id(3)) // beside the right one
				}
			}
			exec(t, db, "DELETE FROM i WHERE id = ?", id(4))
			exec(t, db, "DELETE FROM r WHERE id = ?", id(4))
			if shard == 1 {
				exec(t, db, "INSERT INTO i (id, email) VALUES (?, 'gone')", id(20))
				exec(t, db, "INSERT INTO r (id, email) VALUES (?, 'gone')", id(20))
			}
			exec(t, db, "DELETE FROM tags WHERE id = ?", id(6))
			exec(t, db, "DELETE FROM tags WHERE tag = 'b' AND id = ?", id(5)) // one of several tags
		}
		damage := map[at]replicator.DifferenceKind{
			{3, 0}: replicator.Stale, {3, 1}: replicator.Stale, {4, 0}: replicator.Missing, {4, 1}: replicator.Missing,
			{20, 0}: replicator.Extra, {20, 1}: replicator.Extra, {5, 2}: replicator.Stale, {6, 2}: replicator.Missing,
		}
		expect("after the damage", damage)
		for n := range views {
			held := everyPage(t, func(after string) ([]replicator.Cell, string,
				error) {
				return target.Held(t.Context(), n, after, 7)
			})
			want := 20
			if n == 2 {
				want = 19
			}
			if len(held) != want || held[ops[20].Cell] != (n < 2) {
				t.Errorf("view %d holds %d cells", n, len(held))
			}
		}
		for i := range ops {
			ops[i].AsOf, ops[i].Rewrite = 9, true
		}
		applyAll(t, target, ops...)
		expect("after the repair", map[at]replicator.DifferenceKind{})
		for _, v := range views[:2] {
			if held := m.read(t, v); len(held) != 20 {
				t.Errorf("view %s holds %d entries after the repair", v.Name, len(held))
			}
		}
		if _, _, err := target.Held(t.Context(), 0, "7:", 7); err == nil {
			t.Error("a page of no shard")
		}
	})
}

// If the number of shards changes, entries belong to other shards. A fill puts them there, and its sweep removes the
// old ones.
func TestAFillAfterTheNumberOfShardsChangedMovesEveryEntry(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		all := makeShards(t, s, 4,
			append([]string{"CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)"}, movingDDL...)...)
		const users = 30
		order := int64(0)
		for round, n := range []int{2, 4, 3} {
			m := &shards{dbs: all.dbs[:n], dsns: all.dsns[:n]}
			views := append(movingViews(), counter("c"))
			shardBy(views[2], "city")
			for _, v := range views {
				v.Fingerprint = fmt.Sprint(n)
			}
			target := m.open(t, views...)
			began := order + 1
			var ops []replicator.Op
			for i := range users {
				if round == 1 && i == 0 {
					continue // deleted while no replicator ran
				}
				order++
				op := userOp(i, 1, 2, fmt.Sprint("user", i))
				op.Order, op.Rewrite = order, true
				sum := amountOp(i, 1, fmt.Sprint("city", i%7), int64(1)).Values[0]
				sum.View = 2
				op.Values = append(op.Values, sum)
				ops = append(ops, op)
			}
			applyAll(t, target, ops...)
			look := everyPage(t, func(after string) ([]replicator.Cell, string, error) {
				return target.Outdated(t.Context(), began, after, 7)
			})
			for n := range views {
				maps.Copy(look, everyPage(t, func(after string) ([]replicator.Cell, string, error) {
					return target.(replicator.Tidier).Unclaimed(t.Context(), n, after, 7)
				}))
			}
			order++
			for cell := range look {
				op := replicator.Op{Cell: cell, Version: replicator.NoVersion, AsOf: order, Rewrite: true,
					Values: []replicator.Value{{View: 0}, {View: 1}, {View: 2}}}
				for _, put := range ops {
					if put.Cell == cell {
						op.Version, op.Values = put.Version, put.Values
					}
				}
				applyAll(t, target, op)
			}
			for _, v := range views[:2] {
				if held := m.read(t, v); len(held) != len(ops) {
					t.Errorf("%d shards: view %s holds %d entries", n, v.Name, len(held))
				}
				total := 0
				for _, db := range m.dbs {
					total += count(t, db, settings(v).Table)
				}
				if total != len(ops) {
					t.Errorf("%d shards: view %s has %d rows", n, v.Name, total)
				}
			}
			if sums := m.read(t, views[2]); len(sums) != 7 {
				t.Errorf("%d shards: the sums are %v", n, sums)
			}
		}
	})
}

func TestAViewStandsWhereItsLastShardStands(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		m := makeShards(t, s, 3,
			append([]string{"CREATE TABLE home (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (id, email))"},
				movingDDL...)...)
		views := append(movingViews(), view("index", "home", "email"))
		sink := m.sink(t, views...)
		defer sink.Close()
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 9,
			Token: "nine"}}); err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want ...replicator.Mark) {
			t.Helper()
			got, err := sink.Marks(t.Context(), "")
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: marks are %+v (%v)", when, got, err)
			}
		}
		filling := map[string]replicator.Progress{}
		at := func(view string, order int64, token string, fill map[string]replicator.Progress) replicator.Mark {
			return replicator.Mark{View: view, Fingerprint: "1",
				Standing: replicator.Standing{Position: replicator.Position{Order: order, Token: token}, Fill: fill}}
		}
		i, r, home := at("i", 9, "nine", nil), at("r", 9, "nine", nil), at("home", 9, "nine", nil)
		expect("at first", i, r, home)
		exec(t, m.dbs[2], "UPDATE replicator_views SET mark_order = 4, mark_token = 'four' WHERE name = 'i'")
		expect("one shard fell back", at("i", 4, "four", nil), r, home)
		exec(t, m.dbs[1], "UPDATE replicator_views SET phase = 'filling' WHERE name = 'i'")
		expect("one shard is not filled", at("i", 4, "four", filling), r, home)
		exec(t, m.dbs[1], "UPDATE replicator_views SET fingerprint = '2' WHERE name = 'i'")
		expect("one shard has another definition", r, home)
		exec(t, m.dbs[2], "DROP TABLE replicator_state")
		if _, err := target.Apply(t.Context(), []replicator.Op{userOp(1, 1, 3, "x")}); !errors.Is(err,
			replicator.ErrSinkLost) {
			t.Errorf("Apply without the states of one shard says %v", err)
		}
		exec(t, m.dbs[2], "DROP TABLE replicator_views")
		expect("one shard was emptied", home)
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 10,
			Token: "ten"}}); !errors.Is(err, replicator.ErrSinkLost) {
			t.Errorf("Mark says %v", err)
		}
		if err := sink.Forget(t.Context(), "home"); err != nil {
			t.Fatal(err)
		}
		expect("all is gone")
	})
}

func TestOpenAndCheckRefuseWhatCannotBeSharded(t *testing.T) {
	const index = "CREATE TABLE v (email %s NOT NULL, id BINARY(16) NOT NULL, KEY (id))"
	typed := func(typ string) [2]string { ddl := fmt.Sprintf(index, typ); return [2]string{ddl, ddl} }
	for _, c := range []struct {
		name string
		ddl  [2]string // of the first shard and of the second
		view replicator.View
		want []string // what the error says
	}{
		{"a DECIMAL", typed("DECIMAL(10,2)"), replicator.View{Kind: "index"},
			[]string{"view view", "email", "decimal(10,2)"}},
		{"a DOUBLE", typed("DOUBLE"), replicator.View{Kind: "index"}, []string{"view view", "email", "double"}},
		{"a DATETIME", typed("DATETIME"), replicator.View{Kind: "index"}, []string{"view view", "email", "datetime"}},
		{"a SET", typed("SET('a','b')"), replicator.View{Kind: "index"}, []string{"view view", "email", "set('a','b')"}},
		{"another column", typed("INT"), replicator.View{Kind: "index", Settings: mysql.Settings{ShardOn: "phone"}},
			[]string{"view view", "phone, is not a column"}},
		{"types that differ", [2]string{fmt.Sprintf(index, "VARCHAR(50)"), fmt.Sprintf(index, "VARCHAR(60)")},
			replicator.View{Kind: "index"},
			[]string{"view view", "email", "varchar(50)", "varchar(60)", "s0", "s1", "alike"}},
		{"keys that differ", [2]string{fmt.Sprintf(index, "INT"),
			"CREATE TABLE v (email INT NOT NULL, id BINARY(16) NOT NULL UNIQUE)"}, replicator.View{Kind: "index"},
			[]string{"view view", "s0", "s1", "alike"}},
		{"a table that is missing in one shard", [2]string{fmt.Sprintf(index, "INT"), ""}, replicator.View{Kind: "index"},
			[]string{"view view", "shard s1", "missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachSharded(t, func(t *testing.T, s *servers.Server) {
				m := makeShards(t, s, 2)
				for i, ddl := range c.ddl {
					if ddl != "" {
						exec(t, m.dbs[i], ddl)
					}
				}
				v := c.view
				v.Name, v.Fingerprint = "view", "1"
				set(&v, func(s *mysql.Settings) {
					s.Table, s.ShardOn, s.KeyFrom = "v", cmp.Or(s.ShardOn, "email"), rowKey("id")
				})
				v.From, v.Fields = from("cell.users"), fields("email")
				sink := m.sink(t, &v)
				defer sink.Close()
				_, err := sink.Open(t.Context(), "", []*replicator.View{&v})
				if !replicator.IsFatal(err) {
					t.Errorf("Open says %v", err)
				}
				said := ""
				for _, f := range sink.Check(t.Context(), []*replicator.View{&v}) {
					if f.Level == replicator.Fail {
						said += f.What + ": " + f.Detail + "\n"
					}
				}
				for _, part := range c.want {
					if !strings.Contains(fmt.Sprint(err), part) {
						t.Errorf("Open says %v, without %q", err, part)
					}
					if !strings.Contains(said, part) {
						t.Errorf("Check says %q, without %q", said, part)
					}
				}
			})
		})
	}
}

func TestShardedSchemaAndCreateNameEveryShard(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		m := makeShards(t, s, 2)
		views := movingViews()
		home := view("row", "home", "email")
		views = append(views, home)
		sink := m.sink(t, views...)
		defer sink.Close()
		ddl, err := sink.Schema(t.Context(), views)
		if err != nil || len(ddl) != 5 || !strings.HasPrefix(ddl[0],
			"-- shard s0, database "+schemaOf(t, m.dsns[0])+"\nCREATE TABLE") || !strings.HasPrefix(ddl[3], "-- shard s1") {
			t.Fatalf("Schema: %q, %v", ddl, err)
		}
		for _, v := range views {
			set(v, func(s *mysql.Settings) {
				s.Create, s.Types = true, map[string]string{"email": "VARCHAR(100)", "id": "BINARY(16)"}
			})
		}
		for _, f := range sink.Check(t.Context(), views) {
			if f.Level == replicator.Fail {
				t.Errorf("Check: %+v", f)
			}
		}
		if _, err := sink.Open(t.Context(), "", views); err != nil {
			t.Fatal(err)
		}
		if ddl, err := sink.Schema(t.Context(), views); err != nil || len(ddl) != 0 {
			t.Errorf("Schema after Open: %q, %v", ddl, err)
		}
	})
}
