package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"replicator"
)

// Options say what is verified, and how.
type Options struct {
	View      *replicator.View // the one view that Target and Evaluator are made for
	Tables    []replicator.Table
	Reader    replicator.Reader // also a replicator.Lister
	Target    replicator.Target // also a replicator.Comparer
	Evaluator replicator.Evaluator

	// Fence waits until the view includes all that the source has committed now. nil: nobody keeps the view at the moment, so
	// that whatever it lacks is a difference.
	Fence func(context.Context) error

	Sample   float64 // share of the keys that is looked at, 0 to 1; 0: all
	Rate     int     // cells a second; 0: no limit
	Repair   bool
	Progress func(checked, estimate int64)
}

// Result is what was found.
type Result struct {
	View     string `json:"view"`
	Checked  int64  `json:"checked"`
	Missing  int64  `json:"missing"`
	Stale    int64  `json:"stale"`
	Extra    int64  `json:"extra"`
	Repaired int64  `json:"repaired"`

	Differences []Difference `json:"differences"` // the first thousand
}

// Remaining is how many differences there are still.
func (r *Result) Remaining() int64 { return r.Missing + r.Stale + r.Extra - r.Repaired }

// Difference names a cell that differs.
type Difference struct {
	Key    string                    `json:"key"`
	Column string                    `json:"column"`
	Kind   replicator.DifferenceKind `json:"kind"`
}

const (
	pageSize = 500
	shown    = 1000 // differences that a Result names
	looks    = 12   // at a cell that differs, at most
)

// verifier is one run.
type verifier struct {
	Options
	comparer replicator.Comparer
	lister   replicator.Lister
	result   Result
	estimate int64
	found    map[replicator.Cell]bool // differences, so that the second pass counts none again
}

// ErrUnverifiable: the sink or the source can't be asked what verify has to know.
var ErrUnverifiable = errors.New("can't be verified")

// Run verifies one view.
func Run(ctx context.Context, o Options) (Result, error) {
	v := &verifier{Options: o, result: Result{View: o.View.Name, Differences: []Difference{}}, found: map[replicator.Cell]bool{}}
	var ok bool
	if v.comparer, ok = o.Target.(replicator.Comparer); !ok {
		return v.result, fmt.Errorf("view %s: %w: its sink can't tell what it holds", o.View.Name, ErrUnverifiable)
	}
	if v.lister, ok = o.Reader.(replicator.Lister); !ok {
		return v.result, fmt.Errorf("view %s: %w: its source can't list cells", o.View.Name, ErrUnverifiable)
	}
	for _, t := range v.tables() {
		n, err := v.lister.Estimate(ctx, t)
		if err != nil {
			return v.result, err
		}
		v.estimate += n
	}
	if err := v.source(ctx); err != nil {
		return v.result, err
	}
	return v.result, v.sink(ctx)
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

// source looks at every cell that the source has.
func (v *verifier) source(ctx context.Context) error {
	for _, table := range v.tables() {
		err := v.pages(ctx, func(after string) ([]replicator.Cell, string, error) {
			return v.lister.Cells(ctx, table, v.columns(table), after, pageSize)
		}, true)
		if err != nil {
			return fmt.Errorf("view %s: table %s: %w", v.View.Name, table, err)
		}
	}
	return nil
}

// sink looks at every cell that the sink holds something of.
func (v *verifier) sink(ctx context.Context) error {
	err := v.pages(ctx, func(after string) ([]replicator.Cell, string, error) {
		return v.comparer.Held(ctx, 0, after, pageSize)
	}, false)
	if err != nil {
		return fmt.Errorf("view %s: what the sink holds: %w", v.View.Name, err)
	}
	return nil
}

// pages checks cells page by page, no faster than wanted.
func (v *verifier) pages(ctx context.Context, read func(after string) ([]replicator.Cell, string, error), counts bool) error {
	for after := ""; ; {
		began := time.Now()
		cells, next, err := read(after)
		if err != nil {
			return err
		}
		cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return !v.View.Feeds(c) || !v.sampled(c.Key) })
		if err := v.check(ctx, cells); err != nil {
			return err
		}
		if counts {
			v.result.Checked += int64(len(cells))
		}
		if v.Progress != nil {
			v.Progress(v.result.Checked, max(v.estimate, v.result.Checked))
		}
		if after = next; after == "" {
			return nil
		}
		if err := v.throttle(ctx, len(cells), began); err != nil {
			return err
		}
	}
}

// sampled reports whether a key is among those that are looked at.
func (v *verifier) sampled(k replicator.Key) bool {
	if v.Sample <= 0 || v.Sample >= 1 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(k)) // a hash takes everything
	return float64(h.Sum32()) < v.Sample*math.MaxUint32
}

func (v *verifier) throttle(ctx context.Context, cells int, began time.Time) error {
	if v.Rate <= 0 {
		return ctx.Err()
	}
	return pause(ctx, time.Duration(float64(cells)/float64(v.Rate)*float64(time.Second))-time.Since(began))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
