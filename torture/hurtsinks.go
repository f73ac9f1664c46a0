package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/pause"
	"replicator/internal/servers"
)

func sinkFaults() map[string]fault {
	into := func(sink string) func(Plan) bool {
		return func(p Plan) bool { return slices.Contains(p.sinks(), sink) }
	}
	return map[string]fault{
		"flush": {about: "FLUSHALL", fits: into("cache"),
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.reader.forgive()
				if err := w.redis.FlushAll(ctx).Err(); err != nil { // Redis may be down
					w.say("flush: %v", err)
					return nil, errSkipped
				}
				return nil, nil
			}},
		"cache failover": {about: "a replica that lacks the last writes replaces Redis", fits: into("cache"),
			begin: cacheFailover},
		"main restored": {about: "all tables of a sink's database are set back to an older state while the program runs",
			fits: into("main"), begin: restored},
		swapAnswer: {about: "a view is rebuilt in new tables, and the link is cut while these are renamed",
			fits:  func(p Plan) bool { return into("main")(p) && p.Shards*p.Parts == 1 },
			begin: cutSwap},
		"locked": {about: "an application locks all rows of a target table", fits: into("main"), begin: locked},
		"deadlocks": {about: "an application locks single rows of the target tables in random order",
			fits:  into("main"),
			begin: deadlocks},
		"search copies": {about: "an index lacks a replica of its shard, and accepts no writes", fits: into("search"),
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				return w.lacksCopies(ctx, w.index(f))
			}},
		"search read-only": {about: "an index is read-only, as on a full disk", fits: into("search"),
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				return w.blocked(ctx, w.index(f))
			}},
	}
}

const swapAnswer = "swap cut"

// cutSwap rebuilds a view. A trap drops the RENAME TABLE that swaps the new tables in, or the answer to it. The program
// first tests whether it can rename a table. The trap lets these test renames pass.
func cutSwap(ctx context.Context, w *world, f Fault) (heal, error) {
	views := w.plan.views("main")
	t := &trap{answer: f.Arg%2 == 0, sprung: make(chan struct{}), matches: func(request []byte) bool {
		return bytes.Contains(request, []byte("RENAME TABLE")) && !bytes.Contains(request, []byte("__replaced` TO "))
	}}
	w.links["main"].setTrap(t)
	defer w.links["main"].setTrap(nil)
	if err := w.beside(ctx, "rebuild", views[int(f.Arg/2)%len(views)].Name); err != nil {
		return nil, err
	}
	select {
	case <-t.sprung:
		return nil, nil
	case <-time.After(8 * time.Second): // the program is down, or something else prevents the rebuild
		return nil, errSkipped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cacheFailover starts a replica of Redis and detaches it. The end of the fault replaces Redis with the detached
// server, which lacks the writes since it was detached.
func cacheFailover(ctx context.Context, w *world, _ Fault) (heal, error) {
	asked, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if w.redis.Ping(asked).Err() != nil { // another fault stopped Redis
		return nil, errSkipped
	}
	next, err := servers.Start(ctx, servers.Options{Kind: w.cache.Kind, Small: true, Args: cacheArgs})
	if err != nil {
		return nil, err
	}
	w.extra = append(w.extra, next)
	c := goredis.NewClient(&goredis.Options{Addr: next.Addr()})
	defer c.Close()
	if err := c.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(w.cache.Port)).Err(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); ; {
		info, err := c.Info(ctx, "replication").Result()
		if err != nil {
			return nil, err
		}
		if strings.Contains(info, "master_link_status:up") {
			break
		}
		if time.Now().After(end) { // another fault may have frozen Redis
			return nil, errSkipped
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if err := c.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		w.reader.forgive()
		w.cache = next
		w.links["cache"].move(next.Addr())
		w.links[ownCache].move(next.Addr())
		return nil
	}, nil
}

// restored copies all tables of one of the sink's databases, as of one moment. The end of the fault swaps the copy in
// with a rename, as an operator would after loading a dump. Connections stay open.
func restored(ctx context.Context, w *world, f Fault) (heal, error) {
	shard := int(f.Arg) % len(w.sinkDBs)
	name := w.databaseName(shard)
	kept, gone := fmt.Sprint(name, "_kept", f.Arg), fmt.Sprint(name, "_gone", f.Arg)
	tables, err := w.dump(ctx, shard, kept)
	if err != nil { // the server is down, or a rebuild changed a table during the dump
		w.say("dump: %v", err)
		return nil, errSkipped
	}
	return func(ctx context.Context) error {
		w.reader.forgive()
		db := w.sinkDBs[shard]
		if _, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+gone); err != nil {
			return err
		}
		for range 20 { // a rename fails if a rebuild has just created or dropped tables
			now, err := w.tables(ctx, shard)
			if err != nil {
				return err
			}
			var moves []string
			for _, t := range now {
				moves = append(moves, fmt.Sprintf("%s.`%s` TO %s.`%[2]s`", name, t, gone))
			}
			for _, t := range tables {
				moves = append(moves, fmt.Sprintf("%s.`%s` TO %s.`%[2]s`", kept, t, name))
			}
			if _, err = db.ExecContext(ctx, "RENAME TABLE "+strings.Join(moves, ", ")); err == nil {
				break
			}
			w.say("restore: %v", err)
		}
		for _, extra := range []string{kept, gone} {
			if _, err := db.ExecContext(ctx, "DROP DATABASE "+extra); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// dump copies a shard's tables into a new database on the same server, all as of one moment. It returns the tables'
// names.
func (w *world) dump(ctx context.Context, shard int, into string) ([]string, error) {
	db := w.sinkDBs[shard]
	if _, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+into); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+into); err != nil {
		return nil, err
	}
	tables, err := w.tables(ctx, shard)
	if err != nil {
		return nil, err
	}
	var locks []string
	for _, t := range tables {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("CREATE TABLE %s.`%s` LIKE `%[2]s`", into, t)); err != nil {
			return nil, err
		}
		locks = append(locks, fmt.Sprintf("`%s` READ, %s.`%[1]s` WRITE", t, into))
	}
	if len(tables) == 0 {
		return nil, errors.New("the sink's database has no tables yet")
	}
	one, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer one.Close()
	steps := []string{"SET SESSION lock_wait_timeout = 5", "LOCK TABLES " + strings.Join(locks, ", ")}
	for _, t := range tables {
		steps = append(steps, fmt.Sprintf("INSERT INTO %s.`%s` SELECT * FROM `%[2]s`", into, t))
	}
	for _, text := range append(steps, "UNLOCK TABLES") {
		if _, err := one.ExecContext(ctx, text); err != nil {
			_, _ = one.ExecContext(ctx, "UNLOCK TABLES") // the caller reports err
			return nil, err
		}
	}
	return tables, nil
}

func (w *world) tables(ctx context.Context, shard int) ([]string, error) {
	rows, err := w.sinkDBs[shard].QueryContext(ctx, "SHOW TABLES")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, rows.Err()
}

// locked locks all rows of a target table. The end of the fault unlocks the rows.
func locked(ctx context.Context, w *world, f Fault) (heal, error) {
	views := w.plan.views("main")
	tx, err := w.sinkDBs[0].BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, errSkipped // the server is down
	}
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+views[int(f.Arg)%len(views)].Name+" FOR UPDATE")
	if err != nil { // the table does not exist yet, or the server is down
		_ = tx.Rollback()
		return nil, errSkipped
	}
	rows.Close()
	return func(context.Context) error { _ = tx.Rollback(); return nil }, nil
}

// deadlocks runs two sessions that lock rows of the target tables, several in each transaction and in random order.
// The end of the fault ends the sessions.
func deadlocks(ctx context.Context, w *world, f Fault) (heal, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var sessions sync.WaitGroup
	for i := range uint64(2) {
		sessions.Go(func() {
			r := rand.New(rand.NewPCG(f.Arg, i))
			for ctx.Err() == nil {
				_ = w.lockTargets(ctx, r) // fails while the tables are missing or the server is down
				_ = pause.For(ctx, time.Millisecond)
			}
		})
	}
	return func(context.Context) error {
		cancel()
		sessions.Wait()
		return nil
	}, nil
}

// lockTargets locks some rows of the target tables for a short time, with UPDATE statements that change nothing.
func (w *world) lockTargets(ctx context.Context, r *rand.Rand) error {
	tx, err := pick(r, w.sinkDBs...).BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for range 4 {
		v := pick(r, w.plan.views("main")...)
		column, value := "grp", any(groups[r.IntN(len(groups))])
		switch v.Kind {
		case "row":
			key := w.plan.table(v.Table).Key
			column, value = key.columns()[0], key.values(r.IntN(20))[0]
		case "index":
			column, value = "email", fmt.Sprintf("%d@x.org", r.IntN(12))
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET %s = %[2]s WHERE %[2]s = ?", v.Name, column), value); err != nil {
			return err
		}
		if err := pause.For(ctx, time.Duration(r.IntN(4))*time.Millisecond); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// index returns the name of the index that the fault's argument selects.
func (w *world) index(f Fault) string {
	views := w.plan.views("search")
	return views[int(f.Arg)%len(views)].index(w.at.prefix)
}

// lacksCopies makes an index wait for two copies of its shard before each write. A single node can only have one copy.
func (w *world) lacksCopies(ctx context.Context, index string) (heal, error) {
	set := func(ctx context.Context, name, value string) error {
		_, err := w.request(ctx, http.MethodPut, "/"+index+"/_settings?expand_wildcards=all", `{"index.`+name+`": `+value+`}`)
		return err
	}
	err := set(ctx, "number_of_replicas", "1")
	if err == nil {
		err = set(ctx, "write.wait_for_active_shards", `"2"`)
	}
	if err != nil { // the index does not exist yet, or the server is down
		w.say("copies: %v", err)
		return nil, errSkipped
	}
	// Ending the fault needs two requests, in this order: OpenSearch refuses both settings in one request.
	return func(ctx context.Context) error {
		return w.insist(ctx, func() error {
			if err := set(ctx, "write.wait_for_active_shards", "null"); err != nil {
				return err
			}
			return set(ctx, "number_of_replicas", "0")
		})
	}, nil
}

func (w *world) blocked(ctx context.Context, index string) (heal, error) {
	set := func(ctx context.Context, value string) error {
		_, err := w.request(ctx, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.read_only_allow_delete": `+value+`}`)
		return err
	}
	if err := set(ctx, "true"); err != nil {
		w.say("read-only: %v", err)
		return nil, errSkipped
	}
	return func(ctx context.Context) error { return w.insist(ctx, func() error { return set(ctx, "null") }) }, nil
}

// insist calls try until it succeeds, for a minute at most. Another fault may make try fail until that fault is healed.
func (w *world) insist(ctx context.Context, try func() error) error {
	for end := time.Now().Add(time.Minute); ; {
		err := try()
		if err == nil || time.Now().After(end) {
			return err
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
