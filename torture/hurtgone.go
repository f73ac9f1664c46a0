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

// gone is a row that only the fault comeAndGo changes. comeAndGo says what happens to its versions w < x < v.
type gone struct {
	late
	views   []View
	deletes *tap   // holds the binlog at the delete of version v
	inserts *tap   // holds the binlog at the insert of version x
	after   late   // a second row, inserted right after version x of the first row
	filler  string // a table with a large row, which separates the last delete from the inserts in the binlog
}

// comeAndGo inserts the versions w, v and x of one row, where w < x < v, and deletes them. The program must never show
// x, because x is deleted before the program reads the insert of x. Meanwhile, the link (proxy) to the source holds the
// binlog at three points, and other writers wait.
//
//	in the source    the program
//	insert w and v   shows v
//	delete v         the binlog is held before this
//	insert x
//	delete w and x   re-reads the row because v was deleted, finds nothing, and shows nothing; the binlog is held
//	                 before the insert of x
//	                 reads the insert of x, and must ignore it; the binlog is held before the last delete
func comeAndGo(ctx context.Context, w *world, f Fault) (heal, error) {
	views := w.plan.goneViews()
	g := &gone{views: views, late: late{w: w, t: w.plan.table(views[0].Table), n: 3000 + 2*int(f.Arg),
		last: w.load.n.Add(late0 + 1), reads: int64(len(w.plan.sinks()) * w.plan.Parts)}}
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

// show inserts the versions w and v of the row, and waits until all views show v, the highest one.
func (g *gone) show(ctx context.Context) error {
	g.filler = g.w.load.parts[0] + ".filler"
	if _, err := g.w.load.db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+g.filler+" (b LONGBLOB)"); err != nil {
		return err
	}
	for _, version := range []int64{g.last - 2, g.last} {
		if err := g.put(ctx, version); err != nil {
			return err
		}
	}
	return g.shows(ctx, g.n, fmt.Sprint(g.last))
}

// hold makes the link (proxy) to the source hold the binlog. Then it deletes version v, inserts version x, and deletes
// the two versions that are left, w and x. In the binlog, a large row separates the insert and the last delete, so the
// link receives them in different chunks.
func (g *gone) hold(ctx context.Context) error {
	source := g.w.links["source"]
	g.deletes = source.put(&tap{text: g.body(g.last), free: make(chan struct{})})
	if err := g.remove(ctx); err != nil {
		return err
	}
	if err := g.deletes.passes(ctx, g.reads); err != nil {
		return err
	}
	g.inserts = source.put(&tap{text: g.body(g.last - 1), free: make(chan struct{})})
	if err := g.put(ctx, g.last-1); err != nil {
		return err
	}
	if err := g.after.put(ctx, g.last); err != nil {
		return err
	}
	if _, err := g.w.load.db.ExecContext(ctx, "INSERT INTO "+g.filler+" VALUES (REPEAT('x', 300000))"); err != nil {
		return err
	}
	source.put(&tap{text: g.body(g.last - 2), free: make(chan struct{})})
	_, err := g.w.load.db.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = ?", g.w.load.home(g.t, g.n),
		strings.Join(g.t.Key.columns(), " = ? AND ")), g.t.Key.values(g.n)...)
	return err
}

// lookAgain lets the program read the delete of version v. The program then re-reads the row, whose versions are all
// deleted by now. lookAgain waits until no view shows the row.
func (g *gone) lookAgain(ctx context.Context) error {
	g.w.links["source"].release(g.deletes)
	return g.shows(ctx, g.n, "")
}

// readInsert lets the program read the held insert of version x, which is already deleted in the source. It records an
// error for each view that then shows x.
func (g *gone) readInsert(ctx context.Context) error {
	g.w.links["source"].release(g.inserts)
	if err := g.shows(ctx, g.after.n, fmt.Sprint(g.last)); err != nil {
		return err
	}
	// The program may apply the insert of version x a little after the second row (g.after), although the binlog has
	// that row later.
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
