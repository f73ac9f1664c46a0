package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"replicator/internal/pause"
	"replicator/internal/servers"
)

// fault is a way to hurt the program, its servers or its links. It begins, and returns what ends it; nil if it has ended
// by itself.
type fault struct {
	about string
	fits  func(p Plan) bool // nil: every plan
	begin func(ctx context.Context, w *world, f Fault) (heal func(context.Context) error, err error)
}

// healing does nothing.
func healed(err error) (func(context.Context) error, error) { return nil, err }

// faults are all of them by name.
func faults() map[string]fault {
	all := map[string]fault{}
	for _, some := range []map[string]fault{programFaults(), serverFaults(), linkFaults(), sourceFaults()} {
		maps.Copy(all, some)
	}
	return all
}

// faultNames are those that fit a plan, in order.
func faultNames(p Plan, c Choices) []string {
	all := faults()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if (c.Faults == nil || slices.Contains(c.Faults, name)) && (all[name].fits == nil || all[name].fits(p)) {
			names = append(names, name)
		}
	}
	return names
}

func withFile(p Plan) bool { return p.Store == "file" }

// any is a view of the plan's by a fault's own choice.
func (w *world) any(f Fault) View { return w.plan.Views[int(f.Arg)%len(w.plan.Views)] }

// programFaults hurt the program itself, or ask it for something at a bad time.
func programFaults() map[string]fault {
	return map[string]fault{
		"kill": {about: "kill -9, and started again", begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			w.end(syscall.SIGKILL)
			return healed(w.start(ctx))
		}},
		"down": {about: "kill -9, and started again later", begin: func(_ context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			w.end(syscall.SIGKILL)
			return w.start, nil
		}},
		"stop": {about: "SIGTERM, and started again", begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			w.end(syscall.SIGTERM)
			return healed(w.start(ctx))
		}},
		"freeze": {about: "SIGSTOP for a while", begin: func(_ context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			if w.running == nil {
				return nil, nil
			}
			frozen := w.running
			return func(context.Context) error { return frozen.Signal(syscall.SIGCONT) }, frozen.Signal(syscall.SIGSTOP)
		}},
		"reload": {about: "SIGHUP without a view, and with it again", begin: func(_ context.Context, w *world, f Fault) (func(context.Context) error, error) {
			if len(w.plan.views(w.any(f).Sink)) < 2 { // a sink without views is another matter
				return nil, w.reload("")
			}
			return func(context.Context) error { return w.reload("") }, w.reload(w.any(f).Name)
		}},
		"second": {about: "a second program with a state of its own", fits: withFile, begin: second},
		"lose state": {about: "the state directory is gone after a crash", fits: withFile,
			begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
				w.end(syscall.SIGKILL)
				if err := os.RemoveAll(w.stateDir()); err != nil {
					return nil, err
				}
				return healed(w.start(ctx))
			}},
		"old state": {about: "an older copy of the state directory comes back", fits: withFile, begin: oldState},
		"reset": {about: "checkpoint reset", begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			w.end(syscall.SIGTERM)
			if out, code := w.command(ctx, "checkpoint", "reset", "--yes"); code != 0 {
				w.say("checkpoint reset: %s", out)
			}
			return healed(w.start(ctx))
		}},
		"pause": {about: "a view is paused for a while", begin: func(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
			w.command(ctx, "pause", w.any(f).Name)
			return func(ctx context.Context) error { w.command(ctx, "resume", w.any(f).Name); return nil }, nil
		}},
		"rebuild": {about: "a view is rebuilt", begin: func(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
			return healed(w.beside(ctx, "rebuild", w.any(f).Name))
		}},
		"rebuild all": {about: "all views are rebuilt in place", begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			args := []string{"rebuild", "--in-place"}
			for _, v := range w.plan.Views {
				args = append(args, v.Name)
			}
			return healed(w.beside(ctx, args...))
		}},
		"verify": {about: "all views are verified and repaired", begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			return healed(w.beside(ctx, "verify", "--repair"))
		}},
	}
}

// beside starts a command beside the program, and does not wait for it.
func (w *world) beside(ctx context.Context, args ...string) error {
	p, err := w.program.Start(context.WithoutCancel(ctx), append(args, "-c", w.program.File())...)
	if err == nil {
		w.others = append(w.others, p)
	}
	return err
}

// reload has the program read its file again.
func (w *world) reload(without string) error {
	if err := w.configure(without); err != nil || w.running == nil {
		return err
	}
	return w.running.Signal(syscall.SIGHUP)
}

// second runs another program on the same views, which knows nothing of the first one's state.
func second(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
	other := w.program
	other.Dir = filepath.Join(w.program.Dir, fmt.Sprintf("second%d-%d", len(w.others), f.Arg))
	if err := os.Mkdir(other.Dir, 0o700); err != nil {
		return nil, err
	}
	at := w.at
	at.listen = ""
	if err := other.Configure(w.plan.toml(at, "")); err != nil {
		return nil, err
	}
	p, err := other.Start(context.WithoutCancel(ctx), "run", "-c", other.File())
	if err != nil {
		return nil, err
	}
	w.others = append(w.others, p)
	return func(context.Context) error { p.Kill(); return nil }, nil
}

// oldState puts back, later, the state directory as it is now.
func oldState(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
	w.end(syscall.SIGKILL)
	kept := filepath.Join(w.program.Dir, fmt.Sprintf("kept%d", f.Arg))
	if err := os.RemoveAll(kept); err != nil {
		return nil, err
	}
	if _, err := os.Stat(w.stateDir()); err != nil { // nothing was saved yet
		return healed(w.start(ctx))
	}
	if err := copyDir(kept, w.stateDir()); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		w.end(syscall.SIGKILL)
		if err := os.RemoveAll(w.stateDir()); err != nil {
			return err
		}
		if err := copyDir(w.stateDir(), kept); err != nil {
			return err
		}
		return w.start(ctx)
	}, w.start(ctx)
}

// serverFaults hurt servers.
func serverFaults() map[string]fault {
	all := map[string]fault{}
	for _, name := range []string{"source", "main", "cache"} {
		of := func(w *world) *servers.Server {
			return map[string]*servers.Server{"source": w.source, "main": w.servers.main, "cache": w.servers.cache}[name]
		}
		fits := func(p Plan) bool { return name == "source" || slices.Contains(p.sinks(), name) }
		all[name+" killed"] = fault{about: "the server is killed, and started again later", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (func(context.Context) error, error) {
				return of(w).Restart, of(w).Kill()
			}}
		all[name+" frozen"] = fault{about: "the server answers nothing for a while", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (func(context.Context) error, error) {
				return func(context.Context) error { return of(w).Resume() }, of(w).Suspend()
			}}
		if name != "source" {
			all[name+" set back"] = fault{about: "an older copy of the server's data comes back", fits: fits,
				begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
					return setBack(ctx, w, of(w))
				}}
		}
	}
	cached := func(p Plan) bool { return slices.Contains(p.sinks(), "cache") }
	all["flush"] = fault{about: "FLUSHALL", fits: cached,
		begin: func(ctx context.Context, w *world, _ Fault) (func(context.Context) error, error) {
			w.reader.forgive()
			err := w.redis.FlushAll(ctx).Err()
			w.reader.forgive()
			return healed(err)
		}}
	all["locked"] = fault{about: "an application locks the rows of a target", fits: func(p Plan) bool { return slices.Contains(p.sinks(), "main") },
		begin: locked}
	return all
}

// setBack puts back, later, what a server holds now.
func setBack(ctx context.Context, w *world, s *servers.Server) (func(context.Context) error, error) {
	if err := s.Kill(); err != nil {
		return nil, err
	}
	kept := filepath.Join(w.program.Dir, "server"+filepath.Base(s.Dir))
	data := filepath.Join(s.Dir, "data")
	if err := os.RemoveAll(kept); err != nil {
		return nil, err
	}
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
		err := s.Restart(ctx)
		w.reader.forgive()
		return err
	}, s.Restart(ctx)
}

// locked holds locks on a target's rows for a while.
func locked(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
	views := w.plan.views("main")
	tx, err := w.sinkDB.BeginTx(context.WithoutCancel(ctx), nil)
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
			begin: func(_ context.Context, w *world, _ Fault) (func(context.Context) error, error) {
				w.links[name].cut()
				return nil, nil
			}}
		for _, how := range []string{"silent", "slow", "drip", "refuse"} {
			all[name+" link "+how] = fault{about: "its connections are " + how + " for a while", fits: fits,
				begin: func(_ context.Context, w *world, _ Fault) (func(context.Context) error, error) {
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

// sourceFaults change the source in ways of its own.
func sourceFaults() map[string]fault {
	statement := func(about, text string) fault {
		return fault{about: about, begin: func(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
			t := w.plan.Tables[int(f.Arg)%len(w.plan.Tables)]
			for s := range strings.SplitSeq(strings.NewReplacer("TABLE_", t.Name, "N_", fmt.Sprint(f.Arg)).Replace(text), ";") {
				if _, err := w.sourceDB.ExecContext(ctx, s); err != nil {
					w.say("%s: %v", s, err) // the server may be down
				}
			}
			return nil, nil
		}}
	}
	return map[string]fault{
		"rotate": statement("the binlog goes on in another file", "FLUSH BINARY LOGS"),
		"column": statement("the watched table gets a column, and loses it",
			"ALTER TABLE TABLE_ ADD COLUMN extra_N_ INT;ALTER TABLE TABLE_ DROP COLUMN extra_N_"),
		"other table": statement("DDL on tables that nobody watches",
			"CREATE TABLE other_N_ (a INT, b GEOMETRY);ALTER TABLE other_N_ ADD COLUMN c JSON;DROP TABLE other_N_"),
		"cut-over": {about: "another table takes the place of the watched one, as gh-ost does it", begin: cutOver},
		"huge": {about: "a transaction of thousands of rows", begin: func(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
			if err := w.load.huge(ctx, rand.New(rand.NewPCG(f.Arg, 1))); err != nil {
				w.say("huge: %v", err)
			}
			return nil, nil
		}},
	}
}

// cutOver renames a copy of a table into its place. The writers wait.
func cutOver(ctx context.Context, w *world, f Fault) (func(context.Context) error, error) {
	t := w.plan.Tables[int(f.Arg)%len(w.plan.Tables)].Name
	w.load.hold.Lock()
	defer w.load.hold.Unlock()
	for _, s := range []string{"DROP TABLE IF EXISTS _new, _old", "CREATE TABLE _new LIKE " + t,
		"INSERT INTO _new SELECT * FROM " + t, "RENAME TABLE " + t + " TO _old, _new TO " + t, "DROP TABLE _old"} {
		if _, err := w.sourceDB.ExecContext(ctx, s); err != nil {
			w.say("cut-over: %s: %v", s, err) // the server may be down
			return nil, nil
		}
	}
	return nil, nil
}

// inflict lets the plan's faults happen, one after another or two at once, and heals them.
func (w *world) inflict(ctx context.Context, each int, last func()) error {
	known := faults()
	var open []func(context.Context) error
	heal := func() error {
		for len(open) > 0 { // the last first
			end := open[len(open)-1]
			open = open[:len(open)-1]
			if err := end(ctx); err != nil {
				return fmt.Errorf("healing: %w", err)
			}
		}
		return nil
	}
	for i, f := range w.plan.Faults {
		if !f.With {
			if err := heal(); err != nil {
				return err
			}
			if err := w.wrote(ctx, int64(each*(i+1))); err != nil {
				return err
			}
		}
		if i == len(w.plan.Faults)-1 {
			last()
		}
		w.say("fault %s", f)
		end, err := known[f.Name].begin(ctx, w, f)
		if err != nil {
			return fmt.Errorf("fault %s: %w", f, err)
		}
		if end != nil {
			open = append(open, end)
		}
		if err := pause.For(ctx, f.For); err != nil {
			return err
		}
	}
	return heal()
}
