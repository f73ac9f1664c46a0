package matrix

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// pairsConfig configures a row view and a hash view of a table in which each row has a = n and b = -n. If the program
// reads a row with another layout's columns, the views show a row that violates this.
const pairsConfig = `
[source]
dsn = "${PAIRS_DSN}"
[checkpoint]
path = "${PAIRS_STATE}"
[http]
listen = "${PAIRS_HTTP}"
[tables.pairs]
key = "id"
[sinks.main]
type = "mysql"
dsn = "${PAIRS_DSN}"
[sinks.cache]
type = "redis"
url = "${PAIRS_REDIS}"
[views.pair_rows]
from = "pairs"
sink = "main"
kind = "row"
fields = ["n", "a", "b"]
create = true
[views.pair_hash]
from = "pairs"
sink = "cache"
kind = "hash"
key = "pair:{id}"
fields = ["n", "a", "b"]
`

// sortsOfALTER returns ALTERs of a table (id, n, a, b). Later ALTERs remove what earlier ones added.
func sortsOfALTER(kind servers.Kind) []string {
	all := []string{
		"ADD COLUMN x BIGINT FIRST", "ADD COLUMN y VARCHAR(20) CHARACTER SET latin1 NOT NULL DEFAULT 'é, ''y' AFTER a",
		"MODIFY a BIGINT NOT NULL AFTER b", "CHANGE x x2 BIGINT NULL AFTER n", "MODIFY b BIGINT NOT NULL FIRST, MODIFY id INT NOT NULL AFTER a",
		"DROP COLUMN y, ADD INDEX (a), ADD z DECIMAL(10,2) FIRST", "/*!50000 MODIFY n BIGINT NOT NULL FIRST, */ COMMENT 'ADD q BIGINT FIRST'",
		"DROP x2, DROP z, ADD (p BIGINT, q DATETIME(3))", "MODIFY p INT UNSIGNED FIRST, CHANGE q Q2 TEXT", "ENGINE = InnoDB, DROP INDEX a",
		"MODIFY a BIGINT NOT NULL AFTER id, MODIFY b BIGINT NOT NULL AFTER a, DROP Q2", "ADD COLUMN odd BIGINT FIRST, ORDER BY id, a",
		"DROP odd, DROP p",
	}
	if kind != servers.MySQL57 {
		all = append(all, "ADD r BIGINT AFTER id", "RENAME COLUMN r TO s, MODIFY n BIGINT NOT NULL AFTER b", "DROP s")
	}
	if kind.IsMariaDB() {
		all = append(all, "ADD COLUMN IF NOT EXISTS u UUID FIRST, DROP COLUMN IF EXISTS none", "DROP COLUMN IF EXISTS u, MODIFY COLUMN IF EXISTS b BIGINT NOT NULL FIRST")
	}
	return all
}

// No view stops at an ALTER on a server with default settings, whose binlog has no column names. This holds while the
// program runs, while it is down, during a rebuild, and if it is killed. No operator has to act, and no reader sees a
// wrong row, or an older row than before.
func TestEverySortOfALTERIsFollowed(t *testing.T) {
	kinds := append(servers.SourceKinds(), servers.MySQL57) // the other releases alter tables like one of these
	if os.Getenv("REPLICATOR_SOAK") != "" {
		kinds = servers.AllSourceKinds()
	}
	servertest.EachKindOf(t, kinds, func(t *testing.T, kind servers.Kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		redis := lab.Redis{Server: servertest.Own(t, servers.Redis7)}
		source, dsn := lab.Prepare(t, servertest.Own(t, kind), "pairs",
			"CREATE TABLE pairs (id INT NOT NULL PRIMARY KEY, n BIGINT NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL)")
		listen := servertest.FreeAddress(t)
		program := lab.Build(t, "PAIRS", pairsConfig, "PAIRS_DSN="+dsn, "PAIRS_REDIS="+redis.Server.DSN("0"), "PAIRS_HTTP="+listen)
		program.CatchUp()
		stop := watchPairs(t, source, redis, writePairs(t, source, seed))
		for n, alter := range sortsOfALTER(kind) {
			running := program.Start()
			if err := running.Ready(t.Context(), listen); err != nil {
				t.Fatal(err)
			}
			lab.Pause(t, time.Duration(50+r.IntN(200))*time.Millisecond)
			var rebuilt sync.WaitGroup
			switch n % 3 {
			case 1:
				running.Kill()
			case 2:
				rebuilt.Go(func() { _, _ = program.Try("rebuild", "pair_rows", "pair_hash") }) // a kill may end it
				lab.Pause(t, time.Duration(r.IntN(300))*time.Millisecond)
			}
			alterTable(t, source, "ALTER TABLE pairs "+alter)
			lab.Pause(t, time.Duration(50+r.IntN(200))*time.Millisecond)
			if n%3 != 1 {
				running.Kill()
			}
			rebuilt.Wait()
		}
		program.CatchUp()
		stop()
		program.CatchUp()
		program.Run("verify")
		if t.Failed() {
			t.Log(program.Log(30))
		}
	})
}

// writePairs writes to the table until the returned function is called. n grows with each write.
func writePairs(t *testing.T, source lab.MySQL, seed uint64) (stop func()) {
	t.Helper()
	db, err := sql.Open("mysql", source.Server.DSN(source.Database))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var last atomic.Int64
	for i := range 2 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				id, n := i+2*r.IntN(50), last.Add(1) // each row has one writer
				q := fmt.Sprintf("INSERT INTO pairs (id, n, a, b) VALUES (%d, %d, %d, %d) ON DUPLICATE KEY UPDATE n = %[2]d, a = %[3]d, b = %[4]d",
					id, n, n, -n)
				if r.IntN(10) == 0 {
					q = fmt.Sprintf("DELETE FROM pairs WHERE id = %d", id)
				}
				_, _ = db.ExecContext(ctx, q) // an ALTER may make it fail
				_ = pause.For(ctx, 20*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// watchPairs reads both views until the returned function is called. That function also stops the writers.
func watchPairs(t *testing.T, source lab.MySQL, redis lab.Redis, writers func()) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	reads := map[string]func() (map[string][3]string, error){
		"pair_rows": func() (map[string][3]string, error) { return pairRows(ctx, source) },
		"pair_hash": func() (map[string][3]string, error) { return pairHashes(ctx, redis) },
	}
	for view, read := range reads {
		wg.Go(func() {
			seen := map[string]int64{}
			looks := 0
			for ; ctx.Err() == nil; looks++ {
				rows, err := read()
				if err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", view, err)
					return
				}
				for id, row := range rows {
					var n, a, b int64
					if _, err := fmt.Sscan(strings.Join(row[:], " "), &n, &a, &b); err != nil || a != n || b != -n {
						t.Errorf("%s: row %s is %v: it was read by columns that it doesn't have", view, id, row)
						return
					}
					if n < seen[id] {
						t.Errorf("%s: row %s stepped back from %d to %d", view, id, seen[id], n)
						return
					}
					seen[id] = n
				}
				_ = pause.For(ctx, 300*time.Millisecond) // each read starts a client process
			}
			if len(seen) == 0 {
				t.Errorf("%s: %d looks saw nothing", view, looks)
			}
		})
	}
	return func() {
		writers()
		lab.Pause(t, 100*time.Millisecond)
		cancel()
		wg.Wait()
	}
}

func pairRows(ctx context.Context, source lab.MySQL) (map[string][3]string, error) {
	lines, err := source.Rows(ctx, "SELECT id, n, a, b FROM pair_rows")
	rows := map[string][3]string{}
	for _, l := range lines {
		rows[l[0]] = [3]string{l[1], l[2], l[3]}
	}
	return rows, err
}

// pairHashes reads each hash with one command, HGETALL, so a hash is never read half changed.
func pairHashes(ctx context.Context, redis lab.Redis) (map[string][3]string, error) {
	held, err := redis.Hashes(ctx, "pair:*")
	rows := map[string][3]string{}
	for place, value := range held {
		key, field, _ := strings.Cut(place, " ")
		row := rows[key]
		row[strings.Index("nab", field)] = value
		rows[key] = row
	}
	return rows, err
}
