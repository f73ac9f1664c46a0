package replicator

import "context"

// Looker is a Sink whose Open would end what another process does: who only looks at views opens them by Look. The
// Target shows what others write. To apply something by it is to open them, unless this Sink has them open: then it
// writes beside the Target that has.
type Looker interface {
	Look(ctx context.Context, source string, views []*View) (Target, error)
}

// Sink keeps views in one server (or several shards of one).
type Sink interface {
	// Open prepares views fed by the named source: it creates the sink's own tables, reads the targets' shapes and
	// registers what it does not know yet. A view that can't be kept (its table is missing, a column has no type to
	// convert to) is a Fatal error that says what to do, and that is its own (OfView); those of several views are joined.
	Open(ctx context.Context, source string, views []*View) (Target, error)

	// Marks returns the mark of every view that this sink holds for the named source. One that can't be read is the
	// trouble of its view alone (Mark.Err); an error is of the whole sink. A mark without a view is of one that the sink has
	// forgotten, while others may still read what it put there: the source's Orders have to go on above.
	Marks(ctx context.Context, source string) ([]Mark, error)

	// Forget removes what the sink remembers of a view, for every source: its marks and its cells' states. What the view's
	// target holds stays. The next Open knows nothing of the view, so that a fill writes every cell of it anew.
	Forget(ctx context.Context, view string) error

	Close() error
}

// Mark is what a sink remembers of a view beside the data: how far it has come. A suffix of the data that the sink
// loses takes the newest marks with it, so a mark that fell back, or is gone, shows the loss. A view that was opened
// and never marked has a mark without a position that is filling, as has one that was marked before marks told of the
// progress of a fill: nothing is known to be filled then.
type Mark struct {
	View        string
	Fingerprint string
	Standing
	Err error // why it can't be read: what the sink holds of the view is not known then; nil if it can be

	// Lost is why the sink holds less than the mark said, an error that wraps ErrSinkLost: the mark is then as one that
	// was never set. nil: it holds all of it, or shows a loss by a mark that fell back, or is gone.
	Lost error
}

// Target is an open group of views of one sink: those of one run, for one session. Its methods may be called from
// several goroutines; no two calls of its Apply at a time hold ops of one key. Another target may, of other views, and
// one of another process of the same.
type Target interface {
	// Apply applies ops by the rule of State.Next, each with all its views together. The ops are of distinct cells. All
	// that was applied is durable on return; it may be applied twice. One view's bad value never holds back the others: it
	// is returned as Rejected and the cell then contributes nothing to that view. Errors are temporary unless they are
	// Fatal, and of all views unless they are OfView. The slice is the caller's, who uses it again once Apply returns; not
	// what the ops' Values hold.
	Apply(ctx context.Context, ops []Op) (Applied, error)

	// Versions returns the versions that each cell stands at in the target's views that it feeds; NoVersion counts for
	// one that has none. A delete of a version that is lower than all changes nothing.
	Versions(ctx context.Context, cells []Cell) ([]Span, error)

	// Mark saves for every view of the target how far it has come, all that it stands for having been applied. What is
	// then marked is Standing.Raise of the mark that was there: a mark never falls. If that one is Standing.Below what
	// this target saw or marked earlier, or is gone, the sink lost data: the error wraps ErrSinkLost. If the marks would
	// not have the epoch of the position to be marked, the error is Overtaken. If another target has registered that epoch
	// since this one was opened, nothing is marked, and the error is temporary: the other one may read another log. All that
	// is looked at also where nothing new is marked; nothing need be written then.
	Mark(ctx context.Context, at Standing) error

	// Outdated returns cells of which some view of the target still shows something, or knows a version, although no op at
	// or past the given order was applied: that version may have been deleted while nobody read the source's log. Like all
	// that pages, it goes on after the next that an earlier call returned ("" at first); an empty next is the end. A cell
	// too many does no harm: it is only looked at.
	Outdated(ctx context.Context, before int64, after string, limit int) (cells []Cell, next string, err error)

	// Dead pages through the cells of which a view shows nothing because they are dead letters: what was applied last
	// could not be computed (Value.Err) or was Rejected. The next op that is applied ends that. So what is not shown is
	// known where it is missed, whatever became of the list of letters, and to every replicator. It may read all that the
	// sink remembers. A cell may come several times, and one too many does no harm.
	Dead(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)

	// Compare looks, at one moment, at what the views hold of the ops' cells, whatever their states claim, and returns
	// where that is not what the ops' Values say. Nothing is written. A value that could not be computed, or that the view
	// can't hold, is nothing to hold: where the view is right about the rest, the cell is Dead. Of a view that several
	// cells of an entity feed all of them must be among the ops.
	Compare(ctx context.Context, ops []Op) ([]Difference, error)

	// Held pages through the cells that a view holds entries of. Of an entity with several cells any one will do.
	Held(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)
}

// Span is the lowest and the highest of some versions.
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

// GoneCells counts the cells that a Forgetter found gone from all views that know them.
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
	Unknown  []int // ops that were not applied to any view: State.Unknown holds in one. The cell has to be read again
	Rejected []Rejected

	// Dead are the values that are older than what their view holds, which is that the cell is a dead letter. Some may be of
	// ops that count in other views.
	Dead []ValueAt

	// Elsewhere are the values of ops whose source shows nothing of the cell, where the view shows what another source has.
	// A dead letter that the other source's cell had, because this source's was shown, is obsolete.
	Elsewhere []Elsewhere
}

// Add adds the outcome of some of a batch's ops. places are theirs in the batch.
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

// Refresher is a Target whose readers see what was applied only a while later. Refresh makes them see all of it: a
// fence (Pipeline.Wait) and a session that stops call it, so that "included" means what a reader takes it for.
type Refresher interface {
	Refresh(ctx context.Context) error
}

// Evicter is a Target whose server drops data by itself when its memory is short. What is lost by that no mark tells.
type Evicter interface {
	// Evicted returns how many keys were dropped since it was called last; the first time, since a Mark that followed a call
	// of it. Each Mark finds out.
	Evicted() int64
}

// Shared is a Target that notices what another program marks.
type Shared interface {
	// Foreign returns the views whose marks the last Mark found moved by another target than this one.
	Foreign() []string
}

// Sourced is a Sink that knows which sources have fed its views.
type Sourced interface {
	// Sources are the names of all that the sink may hold views for, in any order: Marks says which.
	Sources(ctx context.Context) ([]string, error)
}

// Parted is a Sink of several parts, of which each remembers its own share of a view, and may lose it by itself.
type Parted interface {
	// ForgetLost forgets a view in the parts that do not hold it, by the definition that it has now, for every one of
	// the sources that some part holds it for. The others hold what they did.
	ForgetLost(ctx context.Context, v *View, sources []string) error

	// Lacking says, by view, which of the parts that a view lives in do not hold it for the source, as messages name
	// them ("shard a"). It says nothing of one that all parts of the sink hold, or none.
	Lacking(ctx context.Context, source string) (map[string]string, error)
}
