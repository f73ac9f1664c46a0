package replicator

import "context"

// Looker is a Sink that can also open views read-only, by Look. Open would take the views over from the process that
// maintains them. The Target that Look returns takes them over only once ops are applied through it.
type Looker interface {
	Look(ctx context.Context, source string, views []*View) (Target, error)
}

// Sink keeps views in one server (or several shards of one).
type Sink interface {
	// Open prepares views fed by the named source: it creates the sink's own tables, reads the columns of the targets and
	// registers new views. If a view can't be kept (its table is missing, or a column's type is not supported), the error
	// is Fatal, concerns that view alone (OfView), and says what to do. Errors of several views are joined.
	Open(ctx context.Context, source string, views []*View) (Target, error)

	// Marks returns the saved progress of every view that this sink holds for the named source. If one Mark can't be
	// read, its Err says why; a returned error concerns the whole sink. A Mark without a view name belongs to a
	// forgotten view. Other programs may still read its data, so the source's Orders must continue above the Mark's.
	Marks(ctx context.Context, source string) ([]Mark, error)

	// Forget removes everything that the sink remembers of a view, for every source. The view's target keeps its
	// contents. The next Open treats the view as new, so a fill writes every cell again.
	Forget(ctx context.Context, view string) error

	Close() error
}

// Mark is a view's progress as a sink keeps it, together with the data. A sink that loses its latest data loses its
// latest Marks, too, so a lower or missing Mark reveals the loss. A view that was opened, and whose progress was never
// saved, has a Mark without a position.
type Mark struct {
	View        string
	Fingerprint string
	Standing
	Err error // why the mark can't be read, so that the view's contents are unknown; nil: it was read

	// Lost says why the sink holds less than its mark claims, and wraps ErrSinkLost. The Mark then has no position.
	// Only a Kafka sink sets Lost. In other sinks, a lower or missing mark shows a loss.
	Lost error
}

// Target is a group of open views of one sink. Several goroutines may call its methods, but two concurrent calls of
// Apply never hold ops of the same key. Targets of other views, or another process's target of the same views, may
// apply ops of the same key at the same time.
type Target interface {
	// Apply applies ops by the rule of State.Next, each to all of its views in one step. No two ops are of one cell.
	// When Apply returns, everything that it applied is durable. The same ops may be applied again.
	//
	// A value that a view can't hold is returned in Rejected, and the cell then contributes nothing to that view; other
	// values are applied. An error is temporary unless it is Fatal, and concerns all views unless it is OfView. After
	// the return, the caller may reuse the slice, but not the contents of the ops' Values.
	Apply(ctx context.Context, ops []Op) (Applied, error)

	// Versions returns, for each cell, the lowest and highest version in the target's views that the cell feeds. A view
	// that does not have the cell counts as NoVersion. A delete of a version lower than all of them changes nothing.
	Versions(ctx context.Context, cells []Cell) ([]Span, error)

	// Mark saves the progress of every view of the target; the caller has applied everything up to it. The saved
	// progress never falls, because it is Standing.Raise of the old and the new one.
	//
	// Mark returns an error and saves nothing in three cases, also if there is nothing to write:
	//   - The sink lost data: the old progress is gone, or Below one that this target has seen. The error wraps
	//     ErrSinkLost.
	//   - Another process took the view over: the result of Raise is in another epoch of the log (EpochOf) than
	//     `reached`. The error is Overtaken.
	//   - Another target was the first to save progress in the epoch of `reached` since this one was opened. It may read
	//     another log. The error is temporary.
	Mark(ctx context.Context, reached Standing) error

	// Outdated returns cells that a view of the target still has, although the op that was last applied to them is
	// before the given order. Their rows may have been deleted while the log was not being read. A superfluous cell
	// does no harm: it is only read again. The first call passes "" as `after`, and each later call the `next` of the
	// call before it, until `next` is empty.
	Outdated(ctx context.Context, before int64, after string, limit int) (cells []Cell, next string, err error)

	// Dead lists the cells that are missing from a view because they are dead letters (see Value.Err and Rejected), a
	// page at a time. The next op that is applied removes the cell from the list. So every replicator can find the
	// missing cells, even if the store lost its dead letters. Dead may read everything that the sink remembers, and may
	// return cells twice or cells that are not missing.
	Dead(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)

	// Compare compares the views' actual contents with the ops' Values at one moment, and writes nothing. If a value
	// can't be computed or written, its view should show nothing of the cell. If the view shows nothing, Compare
	// reports the cell as Dead. If several cells with the same key feed a view, all of them must be among the ops.
	Compare(ctx context.Context, ops []Op) ([]Difference, error)

	// Held lists the cells whose entries a view holds, a page at a time. If entries show only a key, Held returns any
	// one cell of that key, so callers must examine all cells of the key.
	Held(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)
}

// Span is the lowest and highest of several versions.
type Span struct{ Lowest, Highest int64 }

// Forgetter is a Target that can remove the states of cells that are gone, because they have no row left. Other targets
// keep these states forever.
type Forgetter interface {
	// RaiseHorizon raises the horizon (see State.Forgettable) of each of the target's views to the given log position,
	// but never above a view's mark, and never while the view is being filled. Once it has returned, Apply judges by
	// the new horizons, in other processes, too.
	RaiseHorizon(ctx context.Context, horizon int64) error

	// ForgetGone examines about limit cells, and removes states of cells without a row. If the sink stores a cell's
	// states of several views in one record, it removes them only once all are Forgettable, including those of other
	// targets' views. Apply may run at the same time.
	ForgetGone(ctx context.Context, after string, limit int) (found GoneCells, next string, err error)
}

// GoneCells counts the cells that a Forgetter found gone: every view that has a state of the cell says that the cell
// has no row.
type GoneCells struct {
	Forgotten  int // gone cells whose states were removed
	Remembered int // gone cells whose states remain, because not all of them are Forgettable yet
}

func (g *GoneCells) Add(more GoneCells) {
	g.Forgotten += more.Forgotten
	g.Remembered += more.Remembered
}

// Applied is the outcome of Apply. If an op is in none of the lists, each of its views has applied it, or holds
// something newer.
type Applied struct {
	Stale    []int // indexes of ops that no view applied, because each view holds something newer
	Unknown  []int // indexes of ops that no view applied, because State.Unknown is true for a view; re-read the cells
	Rejected []Rejected

	// Dead lists values that a view did not apply because it has a newer state, which says that the cell is a dead
	// letter. So the letter must stay. Other views may have applied the same op.
	Dead []ValueAt

	// Elsewhere lists values of cells that have no row at the op's source, in views that show another source's row of
	// the same cell. If there is a dead letter of that other row, it is obsolete.
	Elsewhere []Elsewhere
}

// Add adds the outcome of some of a batch's ops. An op with index i in that outcome has index places[i] in the batch.
func (a *Applied) Add(part Applied, places []int) {
	for _, i := range part.Stale {
		a.Stale = append(a.Stale, places[i])
	}
	for _, i := range part.Unknown {
		a.Unknown = append(a.Unknown, places[i])
	}
	for _, r := range part.Rejected {
		r.Op = places[r.Op]
		a.Rejected = append(a.Rejected, r)
	}
	for _, d := range part.Dead {
		d.Op = places[d.Op]
		a.Dead = append(a.Dead, d)
	}
	for _, e := range part.Elsewhere {
		e.Op = places[e.Op]
		a.Elsewhere = append(a.Elsewhere, e)
	}
}

// Elsewhere identifies a value in a batch. Its view shows a row of the same cell from another source, which Source
// names.
type Elsewhere struct {
	ValueAt
	Source string
}

// ValueAt identifies a value in a batch.
type ValueAt struct {
	Op   int
	View int // index among the target's views
}

// Rejected is a value that the target can't hold.
type Rejected struct {
	Op   int // index of the op in the batch
	View int // index among the target's views
	Err  error
}

// Refresher is a Target whose readers see writes only after a delay. Refresh makes the writes visible. Pipeline.Wait
// (the `wait` command) and a stopping pipeline call it, so that readers see all that was applied.
type Refresher interface {
	Refresh(ctx context.Context) error
}

// Evicter is a Target whose server drops data when memory is short. The progress in the sink (Mark) doesn't show that
// loss.
type Evicter interface {
	// Evicted returns how many keys the server had dropped at the newest Mark and earlier calls did not return. Each
	// Mark saves the count in the sink, so the first call also returns what was dropped while no target was open.
	Evicted() int64
}

// Shared is a Target that notices when another replicator also maintains its views.
type Shared interface {
	// Foreign returns the views whose positions in the sink another replicator had changed when Mark was last called.
	Foreign() []string
}

// Sourced is a Sink that knows which sources have fed its views.
type Sourced interface {
	// Sources names every source that the sink may hold views for, in any order. Marks tells which views.
	Sources(ctx context.Context) ([]string, error)
}

// Parted is a Sink of several parts, such as shards. Each part keeps the states of some cells, and may lose them while
// the other parts keep theirs.
type Parted interface {
	// ForgetLost forgets a view (see Sink.Forget) in each part that lost it, so that a fill writes it again. A part has
	// lost the view if it does not hold it, under its current definition, for at least one of the sources. A source
	// counts only if the part has a Mark of the view for it, or another part holds the view for it. A view that is not
	// divided among the parts is forgotten in all of them.
	ForgetLost(ctx context.Context, v *View, sources []string) error

	// Lacking returns, by view, the names of the parts that do not hold the view for the source, as messages show them
	// ("shard a"). It leaves out views that all parts hold, and views that no part holds.
	Lacking(ctx context.Context, source string) (map[string]string, error)
}
