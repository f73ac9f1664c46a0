package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// Options say what is verified, and how.
type Options struct {
	View      *replicator.View // the one view that Target and Evaluator are made for
	Tables    []replicator.Table
	Reader    replicator.Reader
	Target    replicator.Target
	Evaluator replicator.Evaluator

	// Fence waits until the view includes all that the source has committed now. nil: nobody keeps the view at the moment,
	// so that whatever it lacks is a difference.
	Fence func(context.Context) error

	// Shard is the number of the source among those that feed the view. What no cell accounts for is looked for by the
	// first, 0.
	Shard int

	// Bury saves letters of one view, without their source, of what a repair finds to be dead, durably: the sink knows of
	// it by then, and nobody else does. nil: there is no list of letters.
	Bury func(ctx context.Context, letters []replicator.DeadLetter) error

	// Raise removes letters that another source's cells have in a view: a repair took away what kept them from being shown.
	// nil: no other source feeds the view.
	Raise func(ctx context.Context, view, source string, cells []replicator.Cell) error

	// Together opens the view with its siblings, those of its sink that are kept up with it now, for a repair to write to
	// all of them. nil, or if it returns nil: the view alone.
	Together func(ctx context.Context) (*Together, error)

	// Buried reports whether there is a letter of a dead cell of the view. Without one a repair tries the cell again.
	// nil: what is dead is left alone.
	Buried func(ctx context.Context, cell replicator.Cell) (bool, error)

	Listed   int     // differences that the Result names; 0: the first twenty
	Sample   float64 // share of the keys that is looked at, 0 to 1; 0: all
	Rate     int     // cells a second; 0: no limit
	Repair   bool
	Progress func(Progress)

	Continue func() error // asked before each page: an error ends the run; nil: it always goes on
	Resume   *Place       // where the run begins, and where it stands when it ends; nil: at the beginning
}

// Together are views that are open together: Options.View comes first.
type Together struct {
	Views     []*replicator.View
	Reader    replicator.Reader
	Target    replicator.Target
	Evaluator replicator.Evaluator
	Close     func() error
}

// Progress is how far a run is with one of the things it does, one after the other.
type Progress struct {
	Doing    string // such as "what the sink holds"
	Cells    int64  // that were read for it
	Estimate int64  // of all there are to read; 0: not known
}

// Place is how far a run came that ended by an error, and what it had found: another one goes on from there. It is kept
// in memory only. The zero value is the beginning; a run that was completed leaves it so.
type Place struct {
	// one for each table of the source, then one over what the sink holds, one over what it remembers, and one over what it
	// holds of no cell
	pass   int
	after  string
	salt   uint64 // makes samples differ from run to run
	result Result
	found  noted[replicator.Cell] // differences, so that the second pass counts none again
	places noted[string]          // where they are, so that the last pass doesn't either
}

// Result is what was found.
type Result struct {
	View     string `json:"view"`
	Checked  int64  `json:"checked"`
	Missing  int64  `json:"missing"`
	Stale    int64  `json:"stale"`
	Extra    int64  `json:"extra"`
	Dead     int64  `json:"dead"`
	Repaired int64  `json:"repaired"`
	// of those that a repair did not help, cells of which the sink remembers something newer than the source has
	Newer int64 `json:"newer,omitempty"`

	Differences []Difference `json:"differences"` // the first, as many as Options.Listed says
}

// Remaining is how many differences there are still: a repair can't help what is dead.
func (r *Result) Remaining() int64 { return r.Missing + r.Stale + r.Extra - r.Repaired + r.Dead }

// Difference names a cell that differs, or, without a column, a place in the sink that no cell accounts for.
type Difference struct {
	Key    string                    `json:"key"`
	Column string                    `json:"column"`
	Kind   replicator.DifferenceKind `json:"kind"`
	// why it is dead, as far as that is known without the dead letter
	Reason string `json:"reason,omitempty"`
}

const (
	pageSize  = 500
	pageBytes = 16 << 20 // of rows and of what they contribute, that are compared at once
	mostShown = 20       // differences that a Result names, unless told otherwise
	// at a cell that differs, at most: what moves from each to the next is in the hands of the pipeline
	looks     = 4
	perListed = 20 // as many keys are listed for the price of one look
)

// verifier is one run.
type verifier struct {
	Options
	*Place
	moved bool // at least one page was read
	// the first could not be: the place itself may be at fault, such as a sink's cursor that is not good any more
	lost bool
}

// ErrNotNow: the view is not in a state to be verified, such as one that is being filled.
var ErrNotNow = errors.New("not verified now")

// ErrUnverifiable: the sink or the source can't be asked what verify has to know.
var ErrUnverifiable = errors.New("can't be verified")

// Run verifies one view. The Result is of all that was looked at since the beginning, also where an error cut the run
// short.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Listed == 0 {
		o.Listed = mostShown
	}
	v := &verifier{Options: o, Place: o.Resume}
	if v.Place == nil {
		v.Place = &Place{}
	}
	if !v.found.begun() {
		v.found, v.places = newNoted[replicator.Cell](), newNoted[string]()
		v.result = Result{View: o.View.Name, Differences: []Difference{}}
		v.salt = rand.Uint64()
	}
	err := v.run(ctx)
	result := v.result
	if err == nil || v.lost {
		*v.Place = Place{}
	}
	return result, err
}

func (v *verifier) run(ctx context.Context) error {
	tables := v.tables()
	for ; v.pass < len(tables); v.pass, v.after = v.pass+1, "" {
		if err := v.source(ctx, tables[v.pass]); err != nil {
			return fmt.Errorf("view %s: table %s: %w", v.View.Name, tables[v.pass], err)
		}
	}
	if v.pass == len(tables) {
		if err := v.sink(ctx); err != nil {
			return fmt.Errorf("view %s: what the sink holds: %w", v.View.Name, err)
		}
		v.pass, v.after = v.pass+1, ""
	}
	if v.pass == len(tables)+1 {
		if err := v.remembered(ctx); err != nil {
			return fmt.Errorf("view %s: what the sink remembers: %w", v.View.Name, err)
		}
		v.pass, v.after = v.pass+1, ""
	}
	if err := v.strays(ctx); err != nil {
		return fmt.Errorf("view %s: what the sink holds of no cell: %w", v.View.Name, err)
	}
	return nil
}

// tables are those that feed the view.
func (v *verifier) tables() []string {
	var tables []string
	for _, f := range v.View.From {
		if !slices.Contains(tables, f.Table) {
			tables = append(tables, f.Table)
		}
	}
	return tables
}

// columns are the column values that the view wants of a table; empty for all.
func (v *verifier) columns(table string) []string {
	var columns []string
	for _, f := range v.View.From {
		if f.Table == table {
			if f.Column == "" {
				return nil
			}
			columns = append(columns, f.Column)
		}
	}
	return columns
}

// source looks at every cell that a table of the source has.
func (v *verifier) source(ctx context.Context, table string) error {
	estimate, err := v.estimate(ctx, table)
	if err != nil {
		return err
	}
	return v.pages(ctx, Progress{Doing: "table " + table, Estimate: estimate},
		func(after string, limit int) ([]replicator.Cell, string, error) {
			return v.Reader.Cells(ctx, table, v.columns(table), after, limit)
		}, v.check, func(checked int) { v.result.Checked += int64(checked) })
}

// estimate is how many cells a table has; 0: not known. The server knows how many rows there are: as many as there are
// cells only if each is one, and all of them are looked at.
func (v *verifier) estimate(ctx context.Context, table string) (int64, error) {
	i := slices.IndexFunc(v.Tables, func(t replicator.Table) bool { return t.Name == table })
	plain := i >= 0 && v.Tables[i].Column == "" && v.Tables[i].Version == ""
	if !plain || v.Progress == nil || v.Sample > 0 && v.Sample < 1 {
		return 0, nil
	}
	return v.Reader.Estimate(ctx, table)
}

// sink looks at every cell that the sink holds something of.
func (v *verifier) sink(ctx context.Context) error {
	at := Progress{Doing: "what the sink holds"}
	if v.Sample <= 0 || v.Sample >= 1 {
		at.Estimate = v.result.Checked // it holds about as many
	}
	return v.pages(ctx, at, func(after string, limit int) ([]replicator.Cell, string, error) {
		return v.Target.Held(ctx, 0, after, limit)
	}, v.check, func(int) {})
}

// remembered has a repair take from the sink what it remembers of rows that are gone, where it shows nothing of them: the
// row of another source, which feeds the view, too, would wait behind such a one for ever.
func (v *verifier) remembered(ctx context.Context) error {
	if !v.Repair || v.Raise == nil {
		return nil
	}
	return v.pages(ctx, Progress{Doing: "what the sink remembers", Estimate: v.result.Checked},
		func(after string, limit int) ([]replicator.Cell, string, error) {
			return v.Target.Outdated(ctx, math.MaxInt64, after, limit)
		}, v.forget, func(int) {})
}

// pages does something with cells page by page, no faster than wanted.
func (v *verifier) pages(ctx context.Context, at Progress,
	read func(after string, limit int) ([]replicator.Cell, string, error),
	do func(ctx context.Context, cells []replicator.Cell) error, count func(checked int)) error {
	for {
		if v.Continue != nil {
			if err := v.Continue(); err != nil {
				return err
			}
		}
		began := time.Now()
		cells, next, err := read(v.after, v.page())
		if err != nil {
			v.lost = !v.moved
			return err
		}
		v.moved = true
		listed := len(cells)
		cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return !v.View.Feeds(c) || !v.sampled(c.Key) })
		if err := do(ctx, cells); err != nil {
			return err
		}
		count(len(cells))
		if v.Progress != nil {
			at.Cells += int64(listed)
			v.Progress(at)
		}
		if v.after = next; next == "" {
			return nil
		}
		if err := v.throttle(ctx, max(len(cells), listed/perListed), began); err != nil {
			return err
		}
	}
}

// page is how many cells are looked at together: with a low rate few, so that the load is spread evenly.
func (v *verifier) page() int {
	if v.Rate <= 0 {
		return pageSize
	}
	return min(max(v.Rate/4, 1), pageSize)
}

// sampled reports whether a key is among those that are looked at.
func (v *verifier) sampled(k replicator.Key) bool {
	if v.Sample <= 0 || v.Sample >= 1 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, v.salt)) // a hash takes everything
	_, _ = h.Write([]byte(k))
	return float64(h.Sum32()) < v.Sample*math.MaxUint32
}

func (v *verifier) throttle(ctx context.Context, cells int, began time.Time) error {
	if v.Rate <= 0 {
		return ctx.Err()
	}
	return pause.For(ctx, time.Duration(float64(cells)/float64(v.Rate)*float64(time.Second))-time.Since(began))
}
