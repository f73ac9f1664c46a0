package replicator_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"replicator"
	"replicator/sinks/judge"
)

// memory is a complete sink that keeps views in maps. The in-memory sink of package sinktest does more. If two sources
// have rows of one key, it decides which of them is shown. It also forgets cells that are gone.
type memory struct {
	mu    sync.Mutex // methods may be called from several goroutines
	cells map[place]kept
	marks map[fed]replicator.Mark
}

// fed identifies a view, and the source that feeds it.
type fed struct{ source, view string }

// place identifies a cell in a view.
type place struct {
	fed
	cell replicator.Cell
}

// kept is what the sink stores for a cell in a view. The state stays when the cell is gone, and decides about every
// later op.
type kept struct {
	state   replicator.State
	entries []replicator.Entry // what readers see
	dead    bool               // the value could not be computed, so readers see nothing
}

var (
	_ replicator.Sink   = (*memory)(nil)
	_ replicator.Target = (*opened)(nil)
)

// Open registers views. If a view's definition has changed, Open drops what the sink stores for the old definition.
func (m *memory) Open(_ context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	standings := make([]replicator.Standing, len(views))
	for i, v := range views {
		of := fed{source, v.Name}
		if mark, ok := m.marks[of]; !ok || mark.Fingerprint != v.Fingerprint {
			if ok {
				maps.DeleteFunc(m.cells, func(p place, _ kept) bool { return p.fed == of })
			}
			never := replicator.Standing{Fill: map[string]replicator.Progress{}}
			m.marks[of] = replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: never}
		}
		standings[i] = m.marks[of].Standing
	}
	return &opened{memory: m, source: source, views: views, known: judge.NewMarks(views, standings, "")}, nil
}

// Marks returns the progress of each view.
func (m *memory) Marks(_ context.Context, source string) (marks []replicator.Mark, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, mark := range m.marks {
		if of.source == source {
			marks = append(marks, mark)
		}
	}
	return marks, nil
}

// Forget removes a view's mark and states. What readers see stays until an op replaces it.
func (m *memory) Forget(_ context.Context, view string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.marks, func(of fed, _ replicator.Mark) bool { return of.view == view })
	for p, k := range m.cells {
		if p.view == view {
			m.cells[p] = kept{state: replicator.Unseen, entries: k.entries}
		}
	}
	return nil
}

func (m *memory) Close() error { return nil }

// opened is the Target: the views that were opened together.
type opened struct {
	*memory
	source string
	views  []*replicator.View
	known  *judge.Marks // the marks that this target saw and saved
}

// of returns what the sink stores for a cell in a view, and its key in the map.
func (t *opened) of(view int, c replicator.Cell) (place, kept) {
	p := place{fed{t.source, t.views[view].Name}, c}
	k, ok := t.cells[p]
	if !ok {
		k.state = replicator.Unseen
	}
	return p, k
}

// Apply replaces the cells' contributions where State.Next says so. An op that no view needed is stale.
func (t *opened) Apply(_ context.Context, ops []replicator.Op) (result replicator.Applied, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, op := range ops {
		stale := true
		for _, v := range op.Values {
			p, k := t.of(v.View, op.Cell)
			next, applies := k.state.Next(op)
			k.state = next
			if applies {
				stale, k.entries, k.dead = false, v.Entries, v.Err != nil
			} else if k.dead {
				result.Dead = append(result.Dead, replicator.ValueAt{Op: i, View: v.View})
			}
			t.cells[p] = k
		}
		if stale {
			result.Stale = append(result.Stale, i)
		}
	}
	return result, nil
}

// Mark saves the views' progress. If the old mark is gone, or is lower than before, the sink lost data, and Mark
// returns an error. Package judge decides what the new mark is.
func (t *opened) Mark(_ context.Context, at replicator.Standing) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known.Mark(at, func(marking *judge.Marking) (err error) {
		raised := map[fed]replicator.Mark{}
		for i, v := range t.views {
			of := fed{t.source, v.Name}
			mark, ok := t.marks[of]
			if !ok || mark.Fingerprint != v.Fingerprint {
				return marking.Gone(i)
			}
			if mark.Standing, err = marking.Raise(i, mark.Standing); err != nil {
				return err
			}
			mark.Fill = maps.Clone(mark.Fill)
			raised[of] = mark
		}
		maps.Copy(t.marks, raised)
		return nil
	})
}

// Versions returns the lowest and the highest version of each cell in the views that it feeds.
func (t *opened) Versions(_ context.Context, cells []replicator.Cell) (spans []replicator.Span, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range cells {
		var versions []int64
		for i, v := range t.views {
			if v.Feeds(c) {
				_, k := t.of(i, c)
				versions = append(versions, k.state.Version)
			}
		}
		spans = append(spans, replicator.Span{Lowest: slices.Min(versions), Highest: slices.Max(versions)})
	}
	return spans, nil
}

// Compare returns the cells for which a view does not hold what it should.
func (t *opened) Compare(_ context.Context, ops []replicator.Op) (all []replicator.Difference, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, op := range ops {
		for _, v := range op.Values {
			_, k := t.of(v.View, op.Cell)
			d := replicator.Difference{Op: i, View: v.View, States: []replicator.State{k.state}, Held: k.entries, Err: v.Err}
			want := v.Entries
			if v.Err != nil {
				want = nil
			}
			switch {
			case len(want) > 0 && len(k.entries) == 0:
				d.Kind = replicator.Missing
			case len(want) == 0 && len(k.entries) > 0:
				d.Kind = replicator.Extra
			case len(want) > 0 && !reflect.DeepEqual(want, k.entries):
				d.Kind = replicator.Stale
			case v.Err != nil:
				d.Kind = replicator.Dead
			default:
				continue
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// Outdated lists the cells to which no op was applied since an order.
func (t *opened) Outdated(_ context.Context, before int64, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(t.views, after, limit, func(k kept) bool {
		known := k.state.Version != replicator.NoVersion || len(k.entries) > 0
		return known && max(k.state.Order, k.state.AsOf) < before
	})
}

// Dead lists the cells that are missing from a view because they are dead letters.
func (t *opened) Dead(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(t.views[view:view+1], after, limit, func(k kept) bool { return k.dead })
}

// Held lists the cells of which a view shows entries.
func (t *opened) Held(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(t.views[view:view+1], after, limit, func(k kept) bool { return len(k.entries) > 0 })
}

// page returns the first cells after the given one, in a fixed order, and where the next page begins.
func (t *opened) page(views []*replicator.View, after string, limit int, wanted func(kept) bool) (
	cells []replicator.Cell, next string, err error,
) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, k := range t.cells {
		of := slices.ContainsFunc(views, func(v *replicator.View) bool { return v.Name == p.view && t.source == p.source })
		if of && p.cell.String() > after && wanted(k) {
			cells = append(cells, p.cell)
		}
	}
	slices.SortFunc(cells, func(a, b replicator.Cell) int { return cmp.Compare(a.String(), b.String()) })
	if cells = slices.Compact(cells); len(cells) > limit {
		return cells[:limit], cells[limit-1].String(), nil
	}
	return cells, "", nil
}

// This is a complete sink, and shows how a pipeline uses it. The pipeline opens views, applies ops to cells, and marks
// the progress. An older op that is applied again is stale. To test your own sink, call sinktest.Run.
func Example_sink() {
	ctx := context.Background()
	users := &replicator.View{Name: "users", Kind: "row", From: []replicator.Feed{{Table: "user"}}, Fingerprint: "1"}
	sink := &memory{cells: map[place]kept{}, marks: map[fed]replicator.Mark{}}
	target, err := sink.Open(ctx, "", []*replicator.View{users})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := replicator.MakeKey(int64(7))
	if err != nil {
		fmt.Println(err)
		return
	}
	put := func(version int64, email string) replicator.Op {
		return replicator.Op{Cell: replicator.Cell{Table: "user", Key: key}, Version: version, Order: version,
			Values: []replicator.Value{{View: 0, Entries: []replicator.Entry{{Fields: []any{email}}}}}}
	}
	for _, op := range []replicator.Op{put(1, "ada@example.com"), put(2, "ada@example.org"), put(1, "ada@example.com")} {
		applied, err := target.Apply(ctx, []replicator.Op{op})
		fmt.Println("version", op.Version, "stale:", len(applied.Stale) > 0, err)
	}
	fmt.Println(target.Mark(ctx, replicator.Standing{Position: replicator.Position{Order: 2, Token: "binlog.000001:400"}}))
	marks, err := sink.Marks(ctx, "")
	fmt.Println(marks[0].View, "at", marks[0].Position.Token, err)
	differences, err := target.Compare(ctx, []replicator.Op{put(2, "ada@example.org")})
	fmt.Println(len(differences), err)
	// Output:
	// version 1 stale: false <nil>
	// version 2 stale: false <nil>
	// version 1 stale: true <nil>
	// <nil>
	// users at binlog.000001:400 <nil>
	// 0 <nil>
}
