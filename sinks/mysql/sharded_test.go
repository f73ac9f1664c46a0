package mysql_test

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"maps"
	"math/big"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
	"replicator/sinks/mysql"
	"replicator/sinks/sinktest"
)

// shardOn are the columns that shard the suite's views. Other views live in the first shard.
var shardOn = map[string]string{
	"by_email": "email", "by_tag": "tags", "by_city": "city", "fav_by_city": "city", // entries move
	"users": "id", "people": "id", "favorites": "o", // entries don't move
	"city_total": "city", "tag_count": "tags", "fav_total": "city",
}

// sharded returns copies of views that are sharded by shardOn.
func sharded(views ...*replicator.View) []*replicator.View {
	var out []*replicator.View
	for _, v := range views {
		v := *v
		shardBy(&v, shardOn[v.Name])
		out = append(out, &v)
	}
	return out
}

func shardBy(v *replicator.View, column string) {
	set(v, func(s *mysql.Settings) { s.ShardOn = column })
}

// shards are the databases of a sharded sink.
type shards struct {
	dbs  []*sql.DB
	dsns []string
}

func makeShards(t testing.TB, s *servers.Server, n int, ddl ...string) *shards {
	t.Helper()
	m := &shards{}
	for range n {
		db, dsn := database(t, s, ddl...)
		m.dbs, m.dsns = append(m.dbs, db), append(m.dsns, dsn)
	}
	return m
}

func (m *shards) sink(t testing.TB, views ...*replicator.View) *mysql.Sharded {
	t.Helper()
	var all []mysql.Shard
	for i, dsn := range m.dsns {
		all = append(all, mysql.Shard{Name: fmt.Sprint("s", i), DSN: dsn})
	}
	s, err := mysql.NewSharded(mysql.Config{Name: "main", Tables: tables, Sources: judge.Sources{Shards: []string{"one", "other", "one/0", "other/0"}}}, all, views)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens views in a new sink, which is closed when the test ends.
func (m *shards) open(t testing.TB, views ...*replicator.View) replicator.Target {
	t.Helper()
	sink := m.sink(t, views...)
	t.Cleanup(func() { sink.Close() })
	target, err := sink.Open(t.Context(), "", views)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// read reads a view from all shards. It fails if an entry is in a shard that its value doesn't lead to.
func (m *shards) read(t testing.TB, v *replicator.View) map[string]string {
	t.Helper()
	all := map[string]string{}
	for shard, db := range m.dbs {
		here := read(t, db, v)
		for id := range here {
			if want := m.home(v, id); want != shard {
				t.Fatalf("view %s: %q stands in shard %d, and not in %d", v.Name, id, shard, want)
			}
		}
		maps.Copy(all, here)
	}
	return all
}

// home returns the shard to which an entry belongs, computed from the entry's name in read.
func (m *shards) home(v *replicator.View, id string) int {
	fields, _, _ := strings.Cut(id, " → ")
	switch {
	case settings(v).ShardOn == "":
		return 0
	case settings(v).ShardOn == "id":
		return bytesHome(id, len(m.dbs))
	case settings(v).ShardOn == "o": // the first part of the key
		object, _, _ := strings.Cut(id, ":")
		return bytesHome(object, len(m.dbs))
	}
	first, _, _ := strings.Cut(fields, ", ")
	return int(crc32.ChecksumIEEE([]byte(first)) % uint32(len(m.dbs)))
}

func bytesHome(digits string, n int) int {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 16 {
		return -1
	}
	return int(new(big.Int).Mod(new(big.Int).SetBytes(b), big.NewInt(int64(n))).Int64())
}

func (m *shards) subject(views []*replicator.View) sinktest.Subject {
	return sinktest.Subject{
		Tables: tables, Views: views,
		Read: func(t testing.TB, v *replicator.View) map[string]string { return m.read(t, v) },
		Bad:  map[string]any{"email": strings.Repeat("é", 300), "amount": replicator.Number("0.5")},
		New:  func(t testing.TB) replicator.Sink { return m.sink(t, views...) },
		Plant: func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
			for _, e := range entries { // in its own shard; other tests plant entries in wrong shards
				plant(t, m.dbs[m.home(v, shown(v, c, e))], v, c, []replicator.Entry{e})
			}
		},
		Remove: func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
			for _, db := range m.dbs {
				remove(t, db, v, c, entries)
			}
		},
	}
}

// eachSharded is servertest.Each without the older MariaDB, because sharding is the same in all of its releases.
func eachSharded(t *testing.T, test func(t *testing.T, s *servers.Server)) {
	t.Helper()
	servertest.EachKindOf(t, []servers.Kind{servers.MySQL, servers.MariaDB118},
		func(t *testing.T, kind servers.Kind) { test(t, servertest.Shared(t, kind)) })
}

func TestShardedConformance(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		m := makeShards(t, s, 3, suiteDDL...)
		subject := m.subject(sharded(suiteViews...))
		subject.Histories = 5
		subject.SetMark = func(t testing.TB, source, view string, at *replicator.Standing) { // in one shard of three
			if at == nil {
				exec(t, m.dbs[1], "DELETE FROM replicator_views WHERE source = ? AND name = ?", source, view)
				return
			}
			setMark(t, m.dbs[1], source, view, *at)
		}
		subject.DamageMark = func(t testing.TB, source, view string) { damageMark(t, m.dbs[1], source, view) }
		sinktest.Run(t, subject)
	})
}
