package replicator

import "context"

// Looker is a Sink that can also open views read-only, by Look. Open would take the views over from the process that
// maintains them. If ops are applied through the Target that Look returns, it opens the views after all.
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
	// forgotten view whose data other programs may still read: the source's Orders must continue above it.
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

	// Lost says why the sink holds less than its mark claims, and wraps ErrSinkLost. The mark then counts as never set.
	// Only a Kafka sink sets it. nil: nothing is lost, or the mark itself shows the loss.
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
	// If the old progress is gone, or Below one that this target has seen, the sink lost data and the error wraps
	// ErrSinkLost. If the raised progress is in a different epoch of the log (EpochOf) than at, the error is Overtaken.
	// If at begins an epoch that another target began since this one was opened, the error is temporary and nothing is
	// saved, because that target may read another log. Mark checks all this even if there is nothing to write.
	Mark(ctx context.Context, at Standing) error

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

	// Compare compares the views' actual contents with the ops' Values at one moment, and writes nothing. If a value could
	// not be computed or written, its view should show nothing of the cell; if that is so, Compare reports the cell as
	// Dead. If several cells with the same key feed a view, all of them must be among the ops.
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

	// ForgetGone examines about limit cells. It removes the states of a cell without a row once all states that the
	// sink keeps together are Forgettable, including those in views of other targets. Apply may run at the same time.
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

// Applied is the outcome of Apply. Ops that are in none of the lists were applied to all of their views.
type Applied struct {
	Stale    []int // indexes of ops that are older than what each of their views holds
	Unknown  []int // indexes of ops that no view applied, because State.Unknown is true for a view; re-read the cells
	Rejected []Rejected

	// Dead lists values that are older than the view's state, while that state says that the cell is a dead letter.
	// Other views may have applied the same ops.
	Dead []ValueAt

	// Elsewhere lists values of cells of which the op's source has no row, while the view shows another source's row of
	// the same cell. If that other source has a dead letter of the cell, the letter is obsolete.
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
	// Evicted returns how many keys the server dropped since the last call. Counting begins with the first Mark after the
	// first call, and each Mark updates the number.
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
	// ForgetLost forgets a view (see Sink.Forget) in each part that does not hold the view under its current definition
	// for one of the sources. It ignores a source for which the part has no Mark of the view and no other part holds
	// the view. A view that is not divided among the parts is forgotten in all of them.
	ForgetLost(ctx context.Context, v *View, sources []string) error

	// Lacking returns, by view, the names of the parts that do not hold the view for the source, as messages show them
	// ("shard a"). It leaves out views that all parts hold, and views that no part holds.
	Lacking(ctx context.Context, source string) (map[string]string, error)
}
