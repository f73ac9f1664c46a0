package main

import (
	"context"
	"math/rand/v2"
	"syscall"
)

// logFaults delete the source's binlogs but not its rows. So on_lost = "rebuild" can fill the views again.
func logFaults() map[string]fault {
	return map[string]fault{
		"reset source": {about: "the source's binlogs are reset while the program runs",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				if w.replica != nil { // the replica could not continue without the deleted binlogs
					return nil, errSkipped
				}
				w.load.hold.Lock()
				defer w.load.hold.Unlock()
				if err := forgetLog(ctx, w.source); err != nil {
					w.say("reset source: %v", err) // the source may be down
					return nil, errSkipped
				}
				return nil, nil
			}},
		"reset source down": {about: "the source's binlogs are reset while the program is down",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				if w.replica != nil {
					return nil, errSkipped
				}
				w.end(syscall.SIGKILL)
				w.writeSome(ctx, f)
				if err := forgetLog(ctx, w.source); err != nil {
					w.say("reset source: %v", err)
				}
				return w.start, nil
			}},
		"purge": {about: "while the program is down, the server purges binlogs that the program still needs",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				if w.replica != nil {
					return nil, errSkipped
				}
				w.end(syscall.SIGKILL)
				w.writeSome(ctx, f)
				if err := w.purge(ctx); err != nil {
					w.say("purge: %v", err)
				}
				return w.start, nil
			}},
		"purge read": {about: "all binlogs but the last are purged while the program runs",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				if w.replica != nil {
					return nil, errSkipped
				}
				if err := w.purge(ctx); err != nil {
					w.say("purge: %v", err)
					return nil, errSkipped
				}
				return nil, nil
			}},
	}
}

// writeSome writes changes. Callers use it while the program can't read the changes.
func (w *world) writeSome(ctx context.Context, f Fault) {
	r := rand.New(rand.NewPCG(f.Arg, 4))
	for range 20 {
		if err := w.load.transaction(ctx, r, 3); err != nil {
			w.say("writing: %v", err) // a deadlock with a writer, or the source is down
		}
	}
}

// purge starts a new binlog file and deletes all older ones.
func (w *world) purge(ctx context.Context) error {
	db := w.sourceDBs[0]
	if _, err := db.ExecContext(ctx, "FLUSH BINARY LOGS"); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([][]byte, len(columns))
	for rows.Next() {
		if err := rows.Scan(pointers(values)...); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PURGE BINARY LOGS TO '"+string(values[0])+"'")
	return err
}
