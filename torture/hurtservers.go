package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"replicator/internal/servers"
)

// serverFaults hurt servers.
func serverFaults() map[string]fault {
	all := map[string]fault{}
	for _, name := range []string{"source", "main", "cache"} {
		of := func(w *world) *servers.Server {
			return map[string]*servers.Server{"source": w.source, "main": w.servers.main, "cache": w.servers.cache}[name]
		}
		fits := func(p Plan) bool { return name == "source" || slices.Contains(p.sinks(), name) }
		all[name+" killed"] = fault{about: "the server is killed, and started again later", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				return of(w).Restart, of(w).Kill()
			}}
		all[name+" frozen"] = fault{about: "the server answers nothing for a while", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				if !of(w).Running() { // another fault's doing
					return nil, nil
				}
				return func(context.Context) error { return of(w).Resume() }, of(w).Suspend()
			}}
		if name != "source" {
			all[name+" set back"] = fault{about: "an older copy of the server's data comes back", fits: fits,
				begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
					return setBack(ctx, w, of(w))
				}}
		}
	}
	cached := func(p Plan) bool { return slices.Contains(p.sinks(), "cache") }
	all["flush"] = fault{about: "FLUSHALL", fits: cached,
		begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
			w.reader.forgive()
			return healed(w.redis.FlushAll(ctx).Err())
		}}
	inMySQL := func(p Plan) bool { return slices.Contains(p.sinks(), "main") }
	all["locked"] = fault{about: "an application locks the rows of a target", fits: inMySQL, begin: locked}
	return all
}

// setBack puts back, later, what a server holds now.
func setBack(ctx context.Context, w *world, s *servers.Server) (heal, error) {
	if err := s.Kill(); err != nil {
		return nil, err
	}
	kept := filepath.Join(w.program.Dir, fmt.Sprint("server", time.Now().UnixNano())) // two faults may keep one each
	data := filepath.Join(s.Dir, "data")
	if err := copyDir(kept, data); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		w.reader.forgive()
		if err := s.Kill(); err != nil {
			return err
		}
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		if err := os.Rename(kept, data); err != nil {
			return err
		}
		return s.Restart(ctx)
	}, s.Restart(ctx)
}

// locked holds locks on a target's rows for a while.
func locked(ctx context.Context, w *world, f Fault) (heal, error) {
	views := w.plan.views("main")
	tx, err := w.sinkDBs[0].BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, nil // the server is down
	}
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+views[int(f.Arg)%len(views)].Name+" FOR UPDATE")
	if err != nil { // the table is not made yet, or the server is down
		return nil, tx.Rollback()
	}
	rows.Close()
	return func(context.Context) error { _ = tx.Rollback(); return nil }, nil
}

// linkFaults hurt links.
func linkFaults() map[string]fault {
	all := map[string]fault{}
	for _, name := range []string{"source", "main", "cache", "search"} {
		fits := func(p Plan) bool { return name == "source" || slices.Contains(p.sinks(), name) }
		all[name+" link cut"] = fault{about: "its connections end", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				w.links[name].cut()
				return nil, nil
			}}
		for _, how := range []string{"silent", "slow", "drip", "refuse"} {
			all[name+" link "+how] = fault{about: "its connections are " + how + " for a while", fits: fits,
				begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
					w.links[name].hurt(how)
					if how == "refuse" {
						w.links[name].cut()
					}
					return func(context.Context) error { w.links[name].hurt(""); return nil }, nil
				}}
		}
	}
	return all
}
