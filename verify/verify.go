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
	View      *replicator.View // the only view that Target and Evaluator are made for
	Tables    []replicator.Table
	Reader    replicator.Reader
	Target    replicator.Target
	Evaluator replicator.Evaluator

	// Fence waits until the view includes everything that the source has committed now. nil: no pipeline updates the
	// view now, so anything missing is a difference.
	Fence func(context.Context) error

	// Shard is the index of the source among the sources that feed the view. Only the run with index 0 searches for
	// strays (contents of the sink that belong to no cell).
	Shard int

	// Bury durably saves dead letters of one view, for cells that a repair could not write. It must set their Source.
	// nil: there is no list of dead letters.
	Bury func(ctx context.Context, letters []replicator.DeadLetter) error

	// Raise clears another source's dead letters of cells in a view. They are obsolete once a repair has removed this
	// source's cells of the same keys from the view, which then shows the other source's cells. nil: no other source
	// feeds the view.
	Raise func(ctx context.Context, view, source string, cells []replicator.Cell) error

	// Together opens the view with its siblings, the views of its sink that are now kept up to date together with it. A
	// repair then writes to all these views. If Together is nil or returns nil, the repair writes to the view alone.
	Together func(ctx context.Context) (*Together, error)

	// Buried reports whether a cell that the sink records as dead has a dead letter. A repair retries cells without
	// one. nil: repairs leave dead cells alone.
	Buried func(ctx context.Context, cell replicator.Cell) (bool, error)

	Listed   int     // most differences that the Result names; 0: twenty
	Sample   float64 // the share of the keys to be checked, 0 to 1; 0: all keys
	Rate     int     // most cells checked a second; 0: no limit
	Repair   bool
	Progress func(Progress)

	Continue func() error // called before each page; an error ends the run; nil: it always continues
	Resume   *Place       // where the run begins; Run updates the Place; nil: the run begins at the beginning
}

// Together is a set of views that were opened together. The first one is Options.View.
type Together struct {
	Views     []*replicator.View
	Reader    replicator.Reader
	Target    replicator.Target
	Evaluator replicator.Evaluator
	Close     func() error
}

// Progress is how far a run is with one of its passes.
type Progress struct {
	Doing    string // what the pass reads, such as "the sink's contents"
	Cells    int64  // number of cells that the pass has read
	Estimate int64  // approximate number of cells that the pass will read in total; 0: unknown
}

// Place is how far a run came before it ended with an error, with its findings, so that another run can continue there.
// It is kept only in memory. The zero value is the beginning.
type Place struct {
	// the number of the pass: one for each table of the source, then one over the sink's contents, one over the cells
	// that the sink remembers, and one over strays (entries that came from no cell)
	pass   int
	after  string
	salt   uint64 // a random number that makes samples differ between runs
	result Result
	found  noted[replicator.Cell] // counted cells, so that the pass over the sink doesn't count them again
	places noted[string]          // names of the wrong entries already counted, so that the pass over strays skips them
}

// Result says what a verification of a view has found.
type Result struct {
	View     string `json:"view"`
	Checked  int64  `json:"checked"`
	Missing  int64  `json:"missing"`
	Stale    int64  `json:"stale"`
	Extra    int64  `json:"extra"`
	Dead     int64  `json:"dead"`
	Repaired int64  `json:"repaired"`
	// the number of unrepaired cells whose states in the sink are newer than the source's rows
	Newer int64 `json:"newer,omitempty"`

	Differences []Difference `json:"differences"` // the first differences, at most as many as Options.Listed says
}

// Remaining is how many differences are left. A repair can't help dead cells.
func (r *Result) Remaining() int64 { return r.Missing + r.Stale + r.Extra - r.Repaired + r.Dead }

// Difference names a cell that differs, or a stray: an entry in the sink that came from no cell. For a stray, Key is
// the entry's name, and Column is empty.
type Difference struct {
	Key    string                    `json:"key"`
	Column string                    `json:"column"`
	Kind   replicator.DifferenceKind `json:"kind"`
	// why the cell is dead, as far as that is known without its dead letter
	Reason string `json:"reason,omitempty"`
}

const (
	pageSize  = 500
	pageBytes = 16 << 20 // most bytes of rows and contributions that are compared at once
	mostShown = 20       // most differences that a Result names, unless Options.Listed says otherwise
	// the most checks of a cell that differs; a cell that changes at every check is left to the pipeline
	looks     = 4
	perListed = 20 // for Options.Rate, this many keys that are only listed count as one checked cell
)

type verifier struct {
	Options
	*Place
	moved bool // the run has read at least one page
	// reading failed before any page was read: the Place to continue from may be invalid, for example because a sink's
	// cursor has expired
	lost bool
}

// ErrNotNow says that the view can't be verified in its present state, such as during a fill.
var ErrNotNow = errors.New("not verified now")

// ErrUnverifiable says that the sink or the source can't answer verify's questions.
var ErrUnverifiable = errors.New("can't be verified")

// Run verifies one view. The Result covers everything that was checked since the beginning, even if an error ended the
// run early.
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
	tables := replicator.Feeding([]*replicator.View{v.View})
	for ; v.pass < len(tables); v.pass, v.after = v.pass+1, "" {
		if err := v.source(ctx, tables[v.pass]); err != nil {
			return fmt.Errorf("view %s: table %s: %w", v.View.Name, tables[v.pass], err)
		}
	}
	if v.pass == len(tables) {
		if err := v.sink(ctx); err != nil {
			return fmt.Errorf("view %s: checking the sink's contents: %w", v.View.Name, err)
		}
		v.pass, v.after = v.pass+1, ""
	}
	if v.pass == len(tables)+1 {
		if err := v.remembered(ctx); err != nil {
			return fmt.Errorf("view %s: checking the cells that the sink remembers: %w", v.View.Name, err)
		}
		v.pass, v.after = v.pass+1, ""
	}
	if err := v.strays(ctx); err != nil {
		return fmt.Errorf("view %s: checking the sink's orphans (entries that belong to no cell): %w", v.View.Name, err)
	}
	return nil
}

// kinds returns the kinds of the table's cells that the view reads (Feed.Column); empty: all kinds.
func (v *verifier) kinds(table string) []string {
	var kinds []string
	for _, f := range v.View.From {
		if f.Table == table {
			if f.Column == "" {
				return nil
			}
			kinds = append(kinds, f.Column)
		}
	}
	return kinds
}

func (v *verifier) source(ctx context.Context, table string) error {
	estimate, err := v.estimate(ctx, table)
	if err != nil {
		return err
	}
	return v.pages(ctx, Progress{Doing: "table " + table, Estimate: estimate},
		func(after string, limit int) ([]replicator.Cell, string, error) {
			return v.Reader.Cells(ctx, table, v.kinds(table), after, limit)
		}, v.check, func(checked int) { v.result.Checked += int64(checked) })
}

// estimate is the approximate number of a table's cells to check; 0: unknown. The server knows only the number of rows.
// Both are equal if each cell has one row, and no sample is taken.
func (v *verifier) estimate(ctx context.Context, table string) (int64, error) {
	i := slices.IndexFunc(v.Tables, func(t replicator.Table) bool { return t.Name == table })
	plain := i >= 0 && v.Tables[i].Column == "" && v.Tables[i].Version == ""
	if !plain || v.Progress == nil || v.Sample > 0 && v.Sample < 1 {
		return 0, nil
	}
	return v.Reader.Estimate(ctx, table)
}

func (v *verifier) sink(ctx context.Context) error {
	at := Progress{Doing: "the sink's contents"}
	if v.Sample <= 0 || v.Sample >= 1 {
		at.Estimate = v.result.Checked // the sink has about as many cells as the source
	}
	return v.pages(ctx, at, func(after string, limit int) ([]replicator.Cell, string, error) {
		return v.Target.Held(ctx, 0, after, limit)
	}, v.check, func(int) {})
}

// remembered makes a repair remove rows that the sink remembers but does not show, if the source no longer has them.
// Such a row keeps its key occupied, so that another source's row of that key would never be shown.
func (v *verifier) remembered(ctx context.Context) error {
	if !v.Repair || v.Raise == nil {
		return nil
	}
	return v.pages(ctx, Progress{Doing: "the cells that the sink remembers", Estimate: v.result.Checked},
		func(after string, limit int) ([]replicator.Cell, string, error) {
			return v.Target.Outdated(ctx, math.MaxInt64, after, limit)
		}, v.forget, func(int) {})
}

// pages calls the function `do` with cells, page by page, no faster than Options.Rate.
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

// page is how many cells are checked together: few with a low rate, so that the load is spread evenly.
func (v *verifier) page() int {
	if v.Rate <= 0 {
		return pageSize
	}
	return min(max(v.Rate/4, 1), pageSize)
}

func (v *verifier) sampled(k replicator.Key) bool {
	if v.Sample <= 0 || v.Sample >= 1 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, v.salt)) // writing to a hash never fails
	_, _ = h.Write([]byte(k))
	return float64(h.Sum32()) < v.Sample*math.MaxUint32
}

func (v *verifier) throttle(ctx context.Context, cells int, began time.Time) error {
	if v.Rate <= 0 {
		return ctx.Err()
	}
	return pause.For(ctx, time.Duration(float64(cells)/float64(v.Rate)*float64(time.Second))-time.Since(began))
}
