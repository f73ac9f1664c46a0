package sinktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/sinks/judge"
)

// fault is a sink with a fault, and the step of the contract that should find it.
type fault struct {
	step func(*fixture)
	name string
	sink func(*Reference) broken
}

// with makes a sink whose targets have a fault.
func with(of func(*memoryTarget) faulty) func(*Reference) broken {
	return func(r *Reference) broken {
		return broken{Reference: r, open: func(t replicator.Target) replicator.Target {
			return of(t.(*memoryTarget))
		}}
	}
}

// Each step of the contract finds the faults that it should find, and finds none in a correct sink.
func TestStepsFindFaults(t *testing.T) {
	for _, f := range slices.Concat(walkFaults(), compareFaults(), movedFaults(), strayFaults(), forgetFaults(),
		swapFaults()) {
		t.Run(f.name, func(t *testing.T) {
			s := subject(NewReference())
			if said := fails(t, s, f.step); said != "" {
				t.Fatalf("the sink in memory has no fault, and the step says %s", said)
			}
			r := NewReference()
			s = subject(r)
			s.New = func(testing.TB) replicator.Sink { return f.sink(r) }
			said := fails(t, s, f.step)
			if said == "" {
				t.Fatal("not found")
			}
			t.Logf("found: %.200s", said)
		})
	}
}

// pages makes a sink whose Held returns faulty pages.
func pages(fault func(cells []replicator.Cell, next string) ([]replicator.Cell, string)) func(*Reference) broken {
	return with(func(t *memoryTarget) faulty { return faulty{memoryTarget: t, held: fault} })
}

// walkFaults returns faults in methods that return pages.
func walkFaults() []fault {
	ctx := context.Background()
	return []fault{
		{testHeld, "a page lacks its last cell", pages(
			func(cells []replicator.Cell, next string) ([]replicator.Cell, string) {
				return cells[:max(0, len(cells)-1)], next
			})},
		{testHeld, "only one page", pages(
			func(cells []replicator.Cell, _ string) ([]replicator.Cell, string) { return cells, "" })},
		{testOutdated, "pages are counted, and what was swept is not there any more", tells(
			func(t *memoryTarget, before int64, after string, limit int) outdated {
				var skip int
				if err := judge.At(after, &skip); err != nil {
					return outdated{err: err}
				}
				all, _, err := t.Outdated(ctx, before, "", 1000)
				page := outdated{cells: all[min(skip, len(all)):min(skip+limit, len(all))], err: err}
				if skip += limit; skip < len(all) {
					page.next = judge.Cursor(skip)
				}
				return page
			})},
		{testOutdated, "the order itself counts as before it", tells(
			func(t *memoryTarget, before int64, after string, limit int) (p outdated) {
				p.cells, p.next, p.err = t.Outdated(ctx, before+1, after, limit)
				return p
			})},
		{testOutdated, "only what is shown", tells(
			func(t *memoryTarget, before int64, after string, limit int) (p outdated) {
				shown := func(_ place, k judge.Known) bool { return k.Shown && k.Outdated(before) }
				p.cells, p.next, p.err = t.page(after, limit, shown)
				return p
			})},
	}
}

// kindFault makes a sink whose Compare reports differences of one kind as another kind; with "", it omits them.
func kindFault(was, is replicator.DifferenceKind) func(*Reference) broken {
	return with(func(t *memoryTarget) faulty {
		return faulty{memoryTarget: t, compare: func(_ []replicator.Op, all differences) differences {
			for i := range all {
				if all[i].Kind == was {
					all[i].Kind = is
				}
			}
			return slices.DeleteFunc(all, func(d replicator.Difference) bool { return d.Kind == "" })
		}}
	})
}

// byState makes Compare trust the states: it omits a difference if the cell's state has the op's version.
func byState(t *memoryTarget) faulty {
	return faulty{memoryTarget: t, compare: func(ops []replicator.Op, all differences) differences {
		known := func(d replicator.Difference) bool { return d.States[0].Version == ops[d.Op].Version }
		return slices.DeleteFunc(all, known)
	}}
}

// compareFaults returns faults in comparing and repairing.
func compareFaults() []fault {
	return []fault{
		{testCompare, "what is missing is not told", kindFault(replicator.Missing, "")},
		{testCompare, "what is stale is told as missing", kindFault(replicator.Stale, replicator.Missing)},
		{testCompare, "what is too much is not told", kindFault(replicator.Extra, "")},
		{testCompare, "the states are compared", with(byState)},
		{testByHand, "the states are compared", with(byState)},
		{testByHand, "what the state says to be there is not written again", with(func(t *memoryTarget) faulty {
			return faulty{memoryTarget: t, apply: func(ops []replicator.Op) []replicator.Op {
				return slices.DeleteFunc(ops, func(op replicator.Op) bool { return op.Rewrite && op.AsOf == 0 })
			}}
		})},
		{testByHand, "a look writes nothing that the state says to be there", with(func(t *memoryTarget) faulty {
			known := func(op replicator.Op) bool { return op.Rewrite && op.AsOf != 0 && op.Version == 5 }
			return faulty{memoryTarget: t, apply: func(ops []replicator.Op) []replicator.Op {
				return slices.DeleteFunc(ops, known)
			}}
		})},
	}
}

// movedFaults returns faults in comparing entities that moved to another source.
func movedFaults() []fault {
	return []fault{
		{testMoved, "what no source has any more is told of by none", kindFault(replicator.Extra, "")},
		{testMoved, "what another source has is told of, and too much", with(func(t *memoryTarget) faulty {
			return faulty{memoryTarget: t, held: func(cells []replicator.Cell, next string) ([]replicator.Cell, string) {
				for p := range t.sink.cells {
					if p.source == t.source {
						cells = append(cells, p.cell)
					}
				}
				return cells, next
			}, compare: func(ops []replicator.Op, all differences) differences {
				for i, op := range ops {
					theirs := place{"other", t.views[op.Values[0].View].Name, op.Cell}
					if op.Version == replicator.NoVersion && t.source == "one" && len(t.sink.held[theirs]) > 0 {
						all = append(all, replicator.Difference{Op: i, View: op.Values[0].View, Kind: replicator.Extra})
					}
				}
				return all
			}}
		})},
	}
}

// strayFaults returns faults in finding and removing entries that came from no cell.
func strayFaults() []fault {
	return []fault{
		{testStrays, "one is not told of", with(func(t *memoryTarget) faulty {
			return faulty{memoryTarget: t, strays: func(all []replicator.Stray) []replicator.Stray {
				return all[:len(all)/2]
			}}
		})},
		{testStrays, "a known cell's is taken for one", with(func(t *memoryTarget) faulty {
			return faulty{memoryTarget: t, strays: func(all []replicator.Stray) []replicator.Stray {
				return append(all, replicator.Stray{Name: "known", At: "known"})
			}}
		})},
		{testStrays, "one that a cell has claimed since is removed", with(func(t *memoryTarget) faulty {
			return faulty{memoryTarget: t,
				tidy: func(view int, strays []replicator.Stray) (removed int, err error) {
					t.sink.mu.Lock()
					defer t.sink.mu.Unlock()
					maps.DeleteFunc(t.sink.held, func(p place, _ []replicator.Entry) bool {
						isAt := func(s replicator.Stray) bool { return s.At == p.cell.String() }
						named := slices.ContainsFunc(strays, isAt)
						if named = named && p.view == t.views[view].Name; named {
							removed++
						}
						return named
					})
					return removed, nil
				}}
		})},
	}
}

// forgetFaults returns faults in forgetting views.
func forgetFaults() []fault {
	return []fault{
		{testForget, "the states stay", func(r *Reference) broken {
			return broken{Reference: r, forget: func(view string) error {
				maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
				return nil
			}}
		}},
		{testForget, "the marks stay", func(r *Reference) broken {
			return broken{Reference: r, forget: func(string) error { return nil }}
		}},
		{testForget, "it is forgotten that there are cells, too", func(r *Reference) broken {
			return broken{Reference: r, forget: func(view string) error {
				maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
				maps.DeleteFunc(r.cells, func(p place, _ judge.Known) bool { return p.view == view })
				return nil
			}, open: func(t replicator.Target) replicator.Target {
				told := func(all []replicator.Stray) []replicator.Stray { return all }
				return faulty{memoryTarget: t.(*memoryTarget), strays: told}
			}}
		}},
	}
}

// swapFaults returns faults in replacing live views by their shadows.
func swapFaults() []fault {
	return []fault{
		{testShadow, "the marks are lost", swapped(func(r *Reference, v *replicator.View) {
			k := mark{"", v.Name}
			never := replicator.Standing{Fill: map[string]replicator.Progress{}}
			r.marks[k] = replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: never}
		})},
		{testShadow, "the states are lost", swapped(func(r *Reference, v *replicator.View) {
			for p := range r.cells {
				if p.view == v.Name {
					r.cells[p] = judge.Unseen
				}
			}
		})},
		{testShadow, "dead letters are lost", swapped(func(r *Reference, v *replicator.View) {
			for p, known := range r.cells {
				if p.view == v.Name {
					known.Dead = false
					r.cells[p] = known
				}
			}
		})},
		{testShadow, "it is added to what was there", func(r *Reference) broken {
			return broken{Reference: r, swap: func(source string, views []*replicator.View) error {
				before := maps.Clone(r.held)
				err := r.Swap(context.Background(), source, views)
				for p, entries := range before {
					if len(r.held[p]) == 0 && !strings.HasSuffix(p.view, replicator.ShadowSuffix) {
						r.held[p] = entries
					}
				}
				return err
			}}
		}},
		{testShadow, "a shadow's mark stays", swapped(func(r *Reference, v *replicator.View) {
			k := mark{"", v.Name + replicator.ShadowSuffix}
			r.marks[k] = replicator.Mark{View: k.view, Fingerprint: v.Fingerprint}
		})},
		{testShadow, "a swap without a shadow empties the view", func(r *Reference) broken {
			return broken{Reference: r, swap: func(source string, views []*replicator.View) error {
				if err := r.Swap(context.Background(), source, views); err != nil {
					for _, v := range views {
						r.drop(v.Name)
					}
				}
				return nil
			}}
		}},
		{testCutSwap, "one view is swapped, and then the other", func(r *Reference) broken {
			calls := 0
			return broken{Reference: r, swap: func(source string, views []*replicator.View) error {
				if calls++; calls == 1 {
					return fmt.Errorf("cut: %w", r.Swap(context.Background(), source, views[:1]))
				}
				return r.Swap(context.Background(), source, views[1:])
			}}
		}},
		{testCutSwap, "it loses the shadow", func(r *Reference) broken {
			return broken{Reference: r, swap: func(source string, views []*replicator.View) error {
				err := r.Discard(context.Background(), views)
				return fmt.Errorf("cut: %w", err)
			}}
		}},
	}
}

// swapped makes a sink whose Swap succeeds, and then spoils each view.
func swapped(spoil func(r *Reference, v *replicator.View)) func(*Reference) broken {
	return func(r *Reference) broken {
		return broken{Reference: r, swap: func(source string, views []*replicator.View) error {
			if err := r.Swap(context.Background(), source, views); err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, v := range views {
				spoil(r, v)
			}
			return nil
		}}
	}
}

// late is a target whose readers see what was applied only after a refresh.
type late struct {
	*memoryTarget
	refresh func()
}

func (l late) Refresh(context.Context) error { l.refresh(); return nil }

func TestARefreshThatDoesNothingIsFound(t *testing.T) {
	for _, refreshes := range []bool{true, false} {
		r := NewReference()
		s := subject(r)
		seen := map[string]map[string]string{}
		s.Search = func(_ testing.TB, v *replicator.View) map[string]string { return seen[v.Name] }
		s.New = func(testing.TB) replicator.Sink {
			return broken{Reference: r, open: func(t replicator.Target) replicator.Target {
				return late{t.(*memoryTarget), func() {
					for _, v := range s.Views {
						if refreshes {
							seen[v.Name] = r.Read(v)
						}
					}
				}}
			}}
		}
		if said := fails(t, s, testRefresh); (said == "") != refreshes {
			t.Errorf("of a target that refreshes (%t) the step says %q", refreshes, said)
		}
	}
}
