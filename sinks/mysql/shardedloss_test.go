package mysql_test

import (
	"fmt"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/sinks/mysql"
)

func TestAViewIsForgottenOnlyInTheShardsThatLostIt(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		for name, c := range map[string]struct {
			harm      string // what happens to the view in shard s1
			forgotten string // by shard
		}{
			"nothing":                   {"", "[false false false]"},
			"all of it is gone":         {"DELETE FROM replicator_views", "[false true false]"},
			"one source's mark is":      {"DELETE FROM replicator_views WHERE source = 'a'", "[false true false]"},
			"it was never marked":       {"UPDATE replicator_views SET mark_token = ''", "[false true false]"},
			"it has another definition": {"UPDATE replicator_views SET fingerprint = '2'", "[false true false]"},
		} {
			t.Run(name, func(t *testing.T) {
				m := makeShards(t, s, 3, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)")
				v := counter("c")
				shardBy(v, "city")
				sink := m.sink(t, v)
				defer sink.Close()
				for _, source := range []string{"a", "b"} {
					target, err := sink.Open(t.Context(), source, []*replicator.View{v})
					if err == nil {
						err = target.Mark(t.Context(), replicator.Standing{
							Position: replicator.Position{Order: 1, Token: "one"}})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if c.harm != "" {
					exec(t, m.dbs[1], c.harm)
				}
				if err := sink.ForgetLost(t.Context(), v, []string{"a", "b", "never read"}); err != nil {
					t.Fatal(err)
				}
				var forgotten []bool
				for _, db := range m.dbs {
					forgotten = append(forgotten, count(t, db, "replicator_views WHERE name IS NOT NULL") == 0)
				}
				if got := fmt.Sprint(forgotten); got != c.forgotten {
					t.Errorf("it is forgotten in %s, not %s", got, c.forgotten)
				}
			})
		}
	})
}

func TestTheShardsThatLackAViewAreNamed(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		const ddl = " (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (id, email))"
		for name, c := range map[string]struct {
			emptied       []int
			order         []int // of the shards, when the sink is opened again
			spread, first string
		}{
			"none":    {},
			"one":     {emptied: []int{1}, spread: "shard s1"},
			"several": {emptied: []int{0, 2}, spread: "shards s0, s2", first: "shard s0"},
			"all":     {emptied: []int{0, 1, 2}, first: "shard s0"},
			"reordered": {order: []int{1, 0, 2},
				first: "shard s1, which is now the first (the view is in shard s0: if the shards were reordered, " +
					"restore their order in [sinks.main.shards])"},
		} {
			t.Run(name, func(t *testing.T) {
				m := makeShards(t, s, 3, "CREATE TABLE spread"+ddl, "CREATE TABLE home"+ddl)
				views := []*replicator.View{view("index", "spread", "email"), view("index", "home", "email")}
				shardBy(views[0], "email")
				err := m.open(t, views...).Mark(t.Context(), replicator.Standing{
					Position: replicator.Position{Order: 1, Token: "one"}})
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range c.emptied {
					exec(t, m.dbs[i], "DROP TABLE replicator_views")
				}
				if c.order == nil {
					c.order = []int{0, 1, 2}
				}
				var named []mysql.Shard
				for _, i := range c.order {
					named = append(named, mysql.Shard{Name: fmt.Sprint("s", i), DSN: m.dsns[i]})
				}
				sink, err := mysql.NewSharded(mysql.Config{Name: "main", Tables: tables}, named, views)
				if err != nil {
					t.Fatal(err)
				}
				defer sink.Close()
				got, err := sink.Lacking(t.Context(), "")
				if err != nil || got["spread"] != c.spread || got["home"] != c.first {
					t.Errorf("lacking are %q (%v)", got, err)
				}
			})
		}
	})
}
