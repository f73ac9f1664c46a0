package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator/internal/pause"
)

const goneRow = "gone row"

// goneFaults make the program read an insert after it has re-read the row and found it deleted.
func goneFaults() map[string]fault {
	return map[string]fault{
		goneRow: {
			about: "a row is inserted and deleted. The program re-reads it, finds nothing, and then reads its insert",
			fits:  func(p Plan) bool { return len(p.goneViews()) > 0 }, begin: comeAndGo},
	}
}

// goneViews returns the views of one table with versioned rows that the reader can poll. It takes the first table that
// has such views.
func (p Plan) goneViews() (views []View) {
	for _, v := range p.Views {
		polled := !v.Where && slices.Contains([]string{"row", "hash", "document"}, v.Kind)
		if polled && p.table(v.Table).Shape != rows && (len(views) == 0 || v.Table == views[0].Table) {
			views = append(views, v)
		}
	}
	return views
}

// gone is a row (late) that only the fault comeAndGo changes.
type gone struct {
	late
	views   []View
	deletes *tap   // holds the binlog back at the delete of the row's version `high`
	inserts *tap   // holds the binlog back at the insert of the row's version `mid`
	after   late   // a second row, which is inserted right after the first row's version `mid`
	filler  string // a table with a large row, which separates the last delete from the inserts in the binlog
}

// comeAndGo inserts the versions low, high and mid of one row, and deletes them. The program must never show mid: by
// the time it reads the insert of mid, it has re-read the row and found that mid is deleted. Other writers wait. The
// proxy before the source (a link) holds the binlog back at the points 1, 2 and 3.
//
//	in the source         the program
//	insert low and high   shows high
//	                      1: the binlog is held back
//	delete high
//	insert mid
//	delete low and mid
//	                      reads the delete of high, re-reads the row, finds nothing, and shows nothing
//	                      2: the binlog is held back
//	                      reads the insert of mid, and must ignore it
//	                      3: the binlog is held back
func comeAndGo(ctx context.Context, w *world, f Fault) (heal, error) {
	views := w.plan.goneViews()
	high := w.load.n.Add(late0 + 1)
	g := &gone{views: views, late: late{w: w, t: w.plan.table(views[0].Table), n: 3000 + 2*int(f.Arg),
		low: high - 2, mid: high - 1, high: high, reads: int64(len(w.plan.sinks()) * w.plan.Parts)}}
	g.after = g.late
	g.after.n++
	w.load.hold.Lock()
	defer w.load.hold.Unlock()
	defer w.links["source"].untap()
	for _, step := range []func(context.Context) error{g.show, g.hold, g.lookAgain, g.readInsert} {
		switch err := step(ctx); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // another fault prevents this step
			w.say("%s: %v", goneRow, err)
			return nil, errSkipped
		}
	}
	return nil, nil
}

// show inserts the versions low and high of the row, and waits until all views show high.
func (g *gone) show(ctx context.Context) error {
	g.filler = g.w.load.parts[0] + ".filler"
	if _, err := g.w.load.db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+g.filler+" (b LONGBLOB)"); err != nil {
		return err
	}
	for _, version := range []int64{g.low, g.high} {
		if err := g.put(ctx, version); err != nil {
			return err
		}
	}
	return g.shows(ctx, g.n, fmt.Sprint(g.high))
}

// hold deletes version high, inserts version mid, and deletes the versions low and mid. Taps hold the binlog back. In
// the binlog, a large row separates the insert and the last delete, so the proxy receives them in different chunks.
func (g *gone) hold(ctx context.Context) error {
	source := g.w.links["source"]
	g.deletes = source.put(&tap{text: g.body(g.high), free: make(chan struct{})})
	if err := g.remove(ctx); err != nil {
		return err
	}
	if err := g.deletes.passes(ctx, g.reads); err != nil {
		return err
	}
	g.inserts = source.put(&tap{text: g.body(g.mid), free: make(chan struct{})})
	if err := g.put(ctx, g.mid); err != nil {
		return err
	}
	if err := g.after.put(ctx, g.high); err != nil {
		return err
	}
	if _, err := g.w.load.db.ExecContext(ctx, "INSERT INTO "+g.filler+" VALUES (REPEAT('x', 300000))"); err != nil {
		return err
	}
	source.put(&tap{text: g.body(g.low), free: make(chan struct{})})
	_, err := g.w.load.db.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = ?", g.w.load.home(g.t, g.n),
		strings.Join(g.t.Key.columns(), " = ? AND ")), g.t.Key.values(g.n)...)
	return err
}

// lookAgain lets the program read the delete of version high. The program then re-reads the row, whose versions are all
// deleted by now. lookAgain waits until no view shows the row.
func (g *gone) lookAgain(ctx context.Context) error {
	g.w.links["source"].release(g.deletes)
	return g.shows(ctx, g.n, "")
}

// readInsert lets the program read the insert of version mid, which is already deleted in the source. It records an
// error for each view that then shows mid.
func (g *gone) readInsert(ctx context.Context) error {
	g.w.links["source"].release(g.inserts)
	if err := g.shows(ctx, g.after.n, fmt.Sprint(g.high)); err != nil {
		return err
	}
	// The views show the second row (g.after), which follows the insert of version mid in the binlog. But the program
	// applies different rows in parallel, so it may apply that insert a little later.
	if err := pause.For(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	for _, v := range g.views {
		if n, err := g.w.reader.n(ctx, v, g.t, g.n); err == nil && n != "" {
			g.w.reader.note(fmt.Sprintf("%s: the view shows n = %s, deleted before the program read its insert",
				v.Name, n))
		}
	}
	return nil
}

// shows waits until all views show n for a key. If n is "", it waits until the views don't show the key.
func (g *gone) shows(ctx context.Context, entity int, n string) error {
	return until(ctx, fmt.Sprintf("all views show n = %q", n), func() bool {
		return !slices.ContainsFunc(g.views, func(v View) bool {
			shown, err := g.w.reader.n(ctx, v, g.t, entity)
			return err != nil || shown != n
		})
	})
}
