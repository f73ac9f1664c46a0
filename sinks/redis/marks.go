package redis

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/sinks/judge"
)

//go:embed marks.lua
var marksSource string

// storedMark is a view's mark as it stands in Redis: a field of a hash, by the view's name.
type storedMark struct {
	Fingerprint string `json:"fingerprint"`
	Generation  uint64 `json:"generation"` // of the states that count
	Forgotten   bool   `json:"forgotten,omitempty"`
	replicator.StoredStanding
}

// at is the mark with another standing.
func (m storedMark) at(at replicator.Standing) storedMark {
	m.StoredStanding = at.Stored()
	return m
}

// begun is the mark of a view that was opened and never marked.
func begun(fingerprint string, generation uint64) storedMark {
	return storedMark{Fingerprint: fingerprint, Generation: generation, StoredStanding: replicator.StoredStanding{Phase: replicator.PhaseFilling}}
}

// sourcesKey is the set of sources that have marks.
const sourcesKey = prefix + "sources"

// copies is how many copies of its marks a cluster holds, spread over the slots so that every node has one: what a node
// loses takes that node's newest marks with it. The lowest copy counts.
const copies = 64

// markKeys are the hashes that hold the marks of a source.
func (s *Sink) markKeys(source string) []string {
	name := marksPrefix + escapeSource.Replace(source)
	if !s.cluster {
		return []string{name}
	}
	keys := make([]string, len(s.tags))
	for i, tag := range s.tags {
		keys[i] = name + ":{" + tag + "}"
	}
	return keys
}

// viewMark is a view's mark in every copy.
type viewMark struct {
	raw     []string // "": none
	marks   []storedMark
	damaged error // why what stands there is no mark
}

// whole is what the copies say together; false if one is missing or forgotten, or is of another generation than the
// others.
func (m *viewMark) whole() (storedMark, bool) {
	first := m.marks[0]
	lowest := first.Standing()
	for i, one := range m.marks {
		if m.raw[i] == "" || one.Forgotten || one.Generation != first.Generation || one.Fingerprint != first.Fingerprint {
			return storedMark{}, false
		}
		lowest = lowest.Least(one.Standing())
	}
	return first.at(lowest), true
}

// readMarks reads all marks of a source.
func (s *Sink) readMarks(ctx context.Context, source string) (map[string]*viewMark, error) {
	keys := s.markKeys(source)
	cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.HGetAll(ctx, key)
		}
		return nil
	})
	if err != nil {
		return nil, classify(err, "reading marks")
	}
	marks := map[string]*viewMark{}
	for i, cmd := range cmds {
		for view, raw := range cmd.(*redis.MapStringStringCmd).Val() {
			m := marks[view]
			if m == nil {
				m = newViewMark(len(keys))
				marks[view] = m
			}
			if err := json.Unmarshal([]byte(raw), &m.marks[i]); err != nil {
				m.damaged = replicator.Fatal(fmt.Errorf("its mark in %s is damaged: stop the program, forget the view with "+
					"`replicator checkpoint forget %s`, and start: it is filled anew", keys[i], view))
			}
			m.raw[i] = raw
		}
	}
	return marks, nil
}

func newViewMark(n int) *viewMark {
	return &viewMark{raw: make([]string, n), marks: make([]storedMark, n)}
}

// swap replaces the marks of views in every copy that still is as it was read. It reports whether all were.
func (s *Sink) swap(ctx context.Context, source string, views []string, old []*viewMark, next func(view, copy int) string) (bool, error) {
	var calls []call
	for i, key := range s.markKeys(source) {
		c := newCall([]string{key})
		for n, v := range views {
			c = append(c, v, old[n].raw[i], next(n, i))
		}
		calls = append(calls, c)
	}
	cmds, err := s.run(ctx, s.swapMarks, calls)
	if err != nil {
		return false, classify(err, "writing marks")
	}
	all := true
	for _, cmd := range cmds {
		n, err := cmd.Int()
		if err != nil {
			return false, classify(err, "writing marks")
		}
		all = all && n == 1
	}
	return all, nil
}

func (m storedMark) encode() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic("a mark is texts and numbers: " + err.Error())
	}
	return string(b)
}

// register gives each view the generation that it is known by, or a new one if it isn't known by this definition. It
// returns how far each is.
func (s *Sink) register(ctx context.Context, source string, keepers []*keeper) ([]replicator.Standing, error) {
	if err := s.rdb.SAdd(ctx, sourcesKey, source).Err(); err != nil {
		return nil, classify(err, "registering the source")
	}
	marked := make([]replicator.Standing, len(keepers))
	for range maxTries {
		known, err := s.readMarks(ctx, source)
		if err != nil {
			return nil, err
		}
		var names []string
		var old []*viewMark
		var fresh []string
		var refused []error
		for i, k := range keepers {
			m := known[k.view.Name]
			if m == nil {
				m = newViewMark(len(s.markKeys(source)))
			}
			if m.damaged != nil {
				refused = append(refused, replicator.OfView(fmt.Errorf("view %s: %w", k.view.Name, m.damaged), k.view.Name))
				continue
			}
			if mark, ok := m.whole(); ok && mark.Fingerprint == k.view.Fingerprint {
				k.generation, marked[i] = mark.Generation, mark.Standing()
				continue
			}
			k.generation = newGeneration(m)
			mark := begun(k.view.Fingerprint, k.generation)
			marked[i] = mark.Standing()
			names, old = append(names, k.view.Name), append(old, m)
			fresh = append(fresh, mark.encode())
		}
		if len(refused) > 0 {
			return nil, errors.Join(refused...)
		}
		if len(names) == 0 {
			return marked, nil
		}
		done, err := s.swap(ctx, source, names, old, func(view, _ int) string { return fresh[view] })
		if err != nil || done {
			return marked, err
		}
	}
	return nil, errors.New("other replicators register the views at the same time")
}

// newGeneration is above every earlier one, also those that were forgotten: it is the time.
func newGeneration(m *viewMark) uint64 {
	g := uint64(time.Now().UnixMilli())
	for _, one := range m.marks {
		g = max(g, one.Generation+1)
	}
	return g
}

// Marks implements replicator.Sink.
func (s *Sink) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	known, err := s.readMarks(ctx, source)
	if err != nil {
		return nil, err
	}
	var found []replicator.Mark
	for view, m := range known {
		if m.damaged != nil {
			found = append(found, replicator.Mark{View: view, Err: m.damaged})
		} else if mark, ok := m.whole(); ok {
			found = append(found, replicator.Mark{View: view, Fingerprint: mark.Fingerprint, Standing: mark.Standing()})
		}
	}
	slices.SortFunc(found, func(a, b replicator.Mark) int { return compare(a.View, b.View) })
	return found, nil
}

// Forget implements replicator.Sink. Of the marks only the generation stays, which the next one has to be above: by
// then the clock may be another machine's. The states count in no later generation, while what the cells contributed
// stays known, so that the next fill can take it back.
func (s *Sink) Forget(ctx context.Context, view string) error {
	sources, err := s.rdb.SMembers(ctx, sourcesKey).Result()
	if err != nil {
		return classify(err, "reading the sources")
	}
	for _, source := range sources {
		if err := s.forget(ctx, source, view); err != nil {
			return fmt.Errorf("forgetting view %s: %w", view, err)
		}
	}
	return nil
}

func (s *Sink) forget(ctx context.Context, source, view string) error {
	for range maxTries {
		known, err := s.readMarks(ctx, source)
		if err != nil || known[view] == nil {
			return err
		}
		stub := storedMark{Generation: newGeneration(known[view]) - 1, Forgotten: true}.encode()
		done, err := s.swap(ctx, source, []string{view}, []*viewMark{known[view]}, func(int, int) string { return stub })
		if err != nil || done {
			return err
		}
	}
	return errors.New("other replicators write its marks all the time")
}

// Mark implements replicator.Target.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	return t.marks.Mark(at, func(marking *judge.Marking) error {
		for range maxTries {
			if done, err := t.mark(ctx, marking); err != nil || done {
				return err
			}
		}
		return errors.New("other replicators write the same marks all the time")
	})
}

// mark reads the views' marks and raises them. It reports whether all were still as they were read.
func (t *Target) mark(ctx context.Context, marking *judge.Marking) (done bool, err error) {
	known, err := t.sink.readMarks(ctx, t.source)
	if err != nil {
		return false, err
	}
	var names []string
	var old []*viewMark
	var next [][]string
	for i, k := range t.keepers {
		m := known[k.view.Name]
		if err := k.check(m, marking, i); err != nil {
			return false, err
		}
		raised := m.raise(marking.At())
		mark, _ := raised.whole()
		marking.Note(i, mark.Standing())
		if !slices.Equal(raised.raw, m.raw) {
			names, old, next = append(names, k.view.Name), append(old, m), append(next, raised.raw)
		}
	}
	if len(names) == 0 {
		return true, nil
	}
	return t.sink.swap(ctx, t.source, names, old, func(view, copy int) string { return next[view][copy] })
}

// check says why a view's mark can't be raised.
func (k *keeper) check(m *viewMark, marking *judge.Marking, view int) error {
	if m == nil {
		return marking.Gone(view)
	}
	if m.damaged != nil {
		return replicator.OfView(fmt.Errorf("view %s: %w", k.view.Name, m.damaged), k.view.Name)
	}
	mark, ok := m.whole()
	switch {
	case !ok:
		return fmt.Errorf("view %s: a part of the cluster has no mark of it: %w", k.view.Name, replicator.ErrSinkLost)
	case mark.Generation != k.generation:
		return fmt.Errorf("view %s: %w", k.view.Name, errors.Join(errNewer, replicator.ErrSinkLost))
	}
	return marking.Check(view, mark.Standing())
}

// raise is the mark after a standing was marked.
func (m *viewMark) raise(at replicator.Standing) *viewMark {
	raised := newViewMark(len(m.marks))
	for i, one := range m.marks {
		raised.marks[i] = one.at(one.Standing().Raise(at))
		raised.raw[i] = raised.marks[i].encode()
	}
	return raised
}
