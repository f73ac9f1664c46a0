package replicator

import "context"

// Looker is a Sink that can open views read-only. Its Open would take the views over from another process. The Target
// that Look returns shows what others write. Applying through it opens the views, unless this Sink has them open
// already: then it writes beside that Target.
type Looker interface {
	Look(ctx context.Context, source string, views []*View) (Target, error)
}

// Sink keeps views in one server (or several shards of one).
type Sink interface {
	// Open prepares views fed by the named source: it creates the sink's own tables, reads the targets' shapes and
	// registers new views. A view that can't be kept (its table is missing, or a column's type is not supported) is a
	// Fatal error of that view alone (OfView), which says what to do. Errors of several views are joined.
	Open(ctx context.Context, source string, views []*View) (Target, error)

	// Marks returns the mark of every view that this sink holds for the named source. A mark that can't be read
	// concerns its view alone (Mark.Err). A returned error concerns the whole sink. A mark without a view belongs to a
	// forgotten view whose data others may still read: the source's Orders must continue above it.
	Marks(ctx context.Context, source string) ([]Mark, error)

	// Forget removes what the sink remembers of a view, for every source: its marks and its cells' states. The view's
	// target keeps its contents. The next Open treats the view as new, so a fill writes every cell again.
	Forget(ctx context.Context, view string) error

	Close() error
}

// Mark is a view's progress as a sink remembers it, beside the data. A sink that loses the latest data loses the latest
// marks with it. So a mark that fell back, or is gone, reveals the loss. A view that was opened and never marked has a
// mark without a position, in the state of filling. So has a view that was marked by a version whose marks lacked the
// progress of fills.
type Mark struct {
	View        string
	Fingerprint string
	Standing
	Err error // why it can't be read, and the view's contents are unknown; nil if it can

	// Lost says why the sink holds less than the mark said. It wraps ErrSinkLost, and the mark then counts as never
	// set. nil: nothing is lost, or only the mark itself tells (it fell back or is gone).
	Lost error
}

// Target is an open group of views of one sink: those of one run, for one session. Its methods may be called from
// several goroutines. Concurrent calls of its Apply never hold ops of the same key. Targets of other views, or another
// process's target of the same views, may do so.
type Target interface {
	// Apply applies ops by the rule of State.Next, each to all of its views together. The ops are of distinct cells. On
	// return, everything applied is durable; it may be applied twice. A bad value of one view never holds back the
	// others. It is returned as Rejected, and the cell contributes nothing to that view. Errors are temporary unless
	// they are Fatal, and concern all views unless they are OfView. The caller may reuse the slice after Apply returns,
	// but not the contents of the ops' Values.
	Apply(ctx context.Context, ops []Op) (Applied, error)

	// Versions returns, for each cell, the versions in the target's views that it feeds. A view without the cell counts
	// as NoVersion. A delete of a version lower than all of them changes nothing.
	Versions(ctx context.Context, cells []Cell) ([]Span, error)

	// Mark saves the progress of every view of the target, once everything up to it has been applied. The new mark is
	// Standing.Raise of the old one, so a mark never falls. If the old mark is Standing.Below an earlier one of this
	// target, or is gone, the sink lost data and the error wraps ErrSinkLost. If the marks would not get the epoch of
	// the marked position, the error is Overtaken. If another target has registered that epoch since this one was
	// opened, nothing is marked, and the error is temporary, because the other one may read another log. Mark checks
	// all this even if nothing has changed, and then need not write.
	Mark(ctx context.Context, at Standing) error

	// Outdated returns cells that some view of the target still shows or has a version of, although no op at or past
	// the given order was applied. That version may have been deleted while the log was not being read. Like every
	// paging method, it continues after the next of an earlier call ("" at first). An empty next is the end. A
	// superfluous cell does no harm: it is only read again.
	Outdated(ctx context.Context, before int64, after string, limit int) (cells []Cell, next string, err error)

	// Dead lists the cells that are missing from a view because they are dead letters, a page at a time. The value
	// applied last could not be computed (Value.Err) or was Rejected. The next applied op ends that. So every
	// replicator can find the missing cells, even if the store's list of letters was lost. Dead may read everything
	// that the sink remembers. A cell may come several times, and a superfluous one does no harm.
	Dead(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)

	// Compare compares the views' actual contents with the ops' Values, at one moment, and returns the differences. It
	// ignores the states' claims and writes nothing. A value that could not be computed, or that the view can't hold,
	// counts as no contribution: if the view is right about the rest, the cell is Dead. If several cells of an entity
	// feed a view, all of them must be among the ops.
	Compare(ctx context.Context, ops []Op) ([]Difference, error)

	// Held lists the cells that a view holds entries of, a page at a time. It may return any of an entity's cells.
	Held(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)
}

// Span is the lowest and highest of several versions.
type Span struct{ Lowest, Highest int64 }

// Forgetter is a Target that can forget cells that are gone. One that is none remembers them for ever.
type Forgetter interface {
	// ForgetGone raises the horizon of each of the target's views to a log position, but never above the view's mark, and
	// never while the mark says that the view is being filled. Then it looks at about limit cells and removes the states of
	// those that are Forgettable in all views that know them, of the target or not. It goes on after the next that an
	// earlier call returned ("" at first); an empty next is the end. Apply may run meanwhile, also of other processes: a
	// horizon is durable before anything is removed by it, and whoever finds nothing of a cell judges by that horizon.
	ForgetGone(ctx context.Context, horizon int64, after string, limit int) (found GoneCells, next string, err error)
}

// GoneCells counts cells that are gone from all views that know them, as a Forgetter found them.
type GoneCells struct {
	Forgotten  int // below the horizons: their states were removed
	Remembered int // the others
}

// Add adds what another call found.
func (g *GoneCells) Add(more GoneCells) {
	g.Forgotten += more.Forgotten
	g.Remembered += more.Remembered
}

// Applied is the outcome of Apply. Ops that are in none of the lists were applied whole.
type Applied struct {
	Stale    []int // ops that were older than what every view of theirs holds, by their place in the batch
	Unknown  []int // ops that were applied to no view because State.Unknown holds in one; their cells must be read again
	Rejected []Rejected

	// Dead are the values that are older than their view's state, which says that the cell is a dead letter. Their ops
	// may count in other views.
	Dead []ValueAt

	// Elsewhere are the values of ops whose source contributes nothing to the cell while the view shows another
	// source's row. A dead letter of the other source's cell that named this source is obsolete.
	Elsewhere []Elsewhere
}

// Add adds the outcome of some of a batch's ops. places are their places in the batch.
func (a *Applied) Add(some Applied, places []int) {
	for _, i := range some.Stale {
		a.Stale = append(a.Stale, places[i])
	}
	for _, i := range some.Unknown {
		a.Unknown = append(a.Unknown, places[i])
	}
	for _, r := range some.Rejected {
		r.Op = places[r.Op]
		a.Rejected = append(a.Rejected, r)
	}
	for _, d := range some.Dead {
		d.Op = places[d.Op]
		a.Dead = append(a.Dead, d)
	}
	for _, e := range some.Elsewhere {
		e.Op = places[e.Op]
		a.Elsewhere = append(a.Elsewhere, e)
	}
}

// Elsewhere is the place of a value in a batch, and the source whose cell the view shows.
type Elsewhere struct {
	ValueAt
	Source string
}

// ValueAt is the place of a value in a batch.
type ValueAt struct {
	Op   int // in the batch
	View int // the view's place in Target.Views
}

// Rejected is a value that the target can't hold.
type Rejected struct {
	Op   int // its place in the batch
	View int // the view's place in Target.Views
	Err  error
}

// Refresher is a Target whose readers see writes only after a delay. Refresh makes them visible. A fence
// (Pipeline.Wait) and a stopping session call it, so that "included" means visible.
type Refresher interface {
	Refresh(ctx context.Context) error
}

// Evicter is a Target whose server drops data when its memory is short. No mark shows that loss.
type Evicter interface {
	// Evicted returns how many keys were dropped since the last call. The first call counts from the first Mark after
	// it. Each Mark updates the number.
	Evicted() int64
}

// Shared is a Target that notices another replicator's marks.
type Shared interface {
	// Foreign returns the views whose marks another target moved, as seen by the last Mark.
	Foreign() []string
}

// Sourced is a Sink that knows which sources have fed its views.
type Sourced interface {
	// Sources names every source that the sink may hold views for, in any order. Marks says which it does.
	Sources(ctx context.Context) ([]string, error)
}

// Parted is a Sink of several parts. Each part remembers its share of a view, and may lose it independently.
type Parted interface {
	// ForgetLost forgets a view in the parts that lack it under its current definition, for every source that some part
	// holds it for. The other parts keep theirs.
	ForgetLost(ctx context.Context, v *View, sources []string) error

	// Lacking says, by view, which of its parts do not hold it for the source, by the names that messages use ("shard
	// a"). It omits a view that all parts hold, or none.
	Lacking(ctx context.Context, source string) (map[string]string, error)
}
