package redis

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/keytemplate"
	"replicator/sinks/judge"
)

//go:embed marks.lua
var marksSource string

// storedMark is a view's mark (its progress) as Redis stores it. A source's marks are a hash with a field for each
// view.
type storedMark struct {
	Fingerprint string `json:"fingerprint"`
	Generation  uint64 `json:"generation"`          // number of the definition; states with other numbers don't count
	Forgotten   bool   `json:"forgotten,omitempty"` // Sink.Forget removed the progress; contributions may be left
	Vacated     bool   `json:"vacated,omitempty"`   // besides, the source's contributions were removed
	Former      bool   `json:"former,omitempty"`    // earlier definitions of the view may have left contributions
	Evicted     int64  `json:"evicted,omitempty"`   // the count of evicted keys last reported to the pipeline

	Keys []string `json:"keys,omitempty"` // all key templates that the view has had
	replicator.StoredStanding
}

func (m storedMark) at(at replicator.Standing) storedMark {
	m.StoredStanding = at.Stored()
	return m
}

// opened returns the mark of a view that was opened and never marked.
func opened(fingerprint string, generation uint64) storedMark {
	return storedMark{Fingerprint: fingerprint, Generation: generation,
		StoredStanding: replicator.StoredStanding{Phase: replicator.PhaseFilling}}
}

// sourcesKey is the key of the set of sources that have marks.
const sourcesKey = prefix + "sources"

// copies is the number of copies of each mark in a cluster. They are spread over the slots, so that every node has one:
// a node that loses data loses its newest marks, too. The copy with the lowest progress counts.
const copies = 64

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

// viewMark is a view's mark in all its copies: several in a cluster, otherwise one.
type viewMark struct {
	raw   []string // the stored text of each copy; "": the copy is missing
	marks []storedMark
}

func newViewMark(n int) *viewMark {
	return &viewMark{raw: make([]string, n), marks: make([]storedMark, n)}
}

func (m *viewMark) with(next func(storedMark) storedMark) *viewMark {
	changed := newViewMark(len(m.marks))
	for i, one := range m.marks {
		changed.marks[i] = next(one)
		changed.raw[i] = changed.marks[i].encode()
	}
	return changed
}

// whole returns the mark with the lowest progress among the copies. It returns false if a copy is missing or forgotten,
// or has another generation or fingerprint than the others.
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

// forgotten reports whether Sink.Forget was called for the view, and the view was not opened since.
func (m *viewMark) forgotten() bool {
	return !slices.ContainsFunc(m.marks, func(one storedMark) bool { return !one.Forgotten })
}

// keys returns all key templates that the view has had, and the given ones, each only once.
func (m *viewMark) keys(more ...string) []string {
	for _, one := range m.marks {
		more = append(more, one.Keys...)
	}
	slices.Sort(more)
	return slices.Compact(more)
}

// vacated reports whether the view was forgotten, and the source's contributions to it were removed.
func (m *viewMark) vacated() bool { return m.forgotten() && m.marks[0].Vacated }

// generation returns the number of a new generation of the view: the time, but at least two more than the highest
// number so far. So the new number minus one belongs to no definition: takeBack writes states with it, which never
// count.
func (m *viewMark) generation() uint64 {
	g := uint64(time.Now().UnixMilli())
	for _, one := range m.marks {
		g = max(g, one.Generation+2)
	}
	return g
}

// readMarks reads all marks of a source. A damaged mark counts as that of a forgotten view.
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
				m.marks[i] = storedMark{Forgotten: true}
			}
			m.raw[i] = raw
		}
	}
	return marks, nil
}

type newMark struct {
	view     string
	old, new *viewMark
}

// changeMarks replaces marks of a source by what `change` returns, in every copy: a cluster has 64 copies, so that
// every node has one. If the marks have changed meanwhile, it calls `change` again. `expected` names the servers that
// must answer; "" if any may (see swap).
func (s *Sink) changeMarks(ctx context.Context, source, expected string,
	change func(known map[string]*viewMark) ([]newMark, error)) (markedOn, error) {
	for range maxTries {
		known, err := s.readMarks(ctx, source)
		if err != nil {
			return markedOn{}, err
		}
		marks, err := change(known)
		if err != nil {
			return markedOn{}, err
		}
		if done, on, err := s.swap(ctx, source, expected, marks); err != nil || done {
			return on, err
		}
	}
	return markedOn{}, fmt.Errorf("other replicators changed the marks of these views during each of %d attempts: "+
		"keep the views with one replicator, and stop the others", maxTries)
}

// markedOn describes the servers that have the marks: their names, separated by commas, and how many keys they have
// evicted since they were started. A server that doesn't tell this number adds 0.
type markedOn struct {
	servers string
	evicted int64
}

// swap replaces marks in each of their copies (a cluster has 64) that is unchanged and on the expected server. It
// reports whether it replaced all copies, and on which servers. A server's name is its run_id and master_replid, which
// a restart or a failover changes.
//
// `expected` and markedOn.servers are lists of names that begin with a number: how often an address has led to another
// server. So swap notices even that an address led elsewhere and back.
func (s *Sink) swap(ctx context.Context, source, expected string, marks []newMark) (bool, markedOn, error) {
	keys := s.markKeys(source)
	calls := make([]call, 0, len(keys))
	moved := strconv.FormatInt(s.links.moved.Load(), 10)
	names := make([]string, 1+len(keys))
	copy(names, strings.Split(expected, ","))
	if expected != "" && names[0] != moved {
		return false, markedOn{}, judge.ErrOtherServer
	}
	names[0] = moved
	for i, key := range keys {
		c := newCall([]string{key}, names[1+i])
		for _, m := range marks {
			c = append(c, m.view, m.old.raw[i], m.new.raw[i])
		}
		calls = append(calls, c)
	}
	cmds, err := s.run(ctx, s.swapMarks, calls)
	if err != nil {
		return false, markedOn{}, classify(err, "writing marks")
	}
	all, evicted := true, map[string]int64{}
	for i, cmd := range cmds {
		answer, err := cmd.Slice()
		if err == nil && len(answer) != 3 {
			err = fmt.Errorf("the Lua script that replaces marks returned %d values instead of 3", len(answer))
		}
		if err != nil {
			return false, markedOn{}, classify(err, "writing marks")
		}
		if answer[0] == int64(-1) {
			return false, markedOn{}, judge.ErrOtherServer
		}
		names[1+i] = fmt.Sprint(answer[1])
		if n, err := strconv.ParseInt(fmt.Sprint(answer[2]), 10, 64); err == nil { // no number: the user may not run INFO
			evicted[names[1+i]] = n // by name, so that a server with several copies counts once
		}
		all = all && answer[0] == int64(1)
	}
	on := markedOn{servers: strings.Join(names, ",")}
	for _, n := range evicted {
		on.evicted += n
	}
	return all, on, nil
}

func (m storedMark) encode() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic("encoding a mark: " + err.Error())
	}
	return string(b)
}

// register gives each view its stored generation (number of its definition), or a new one if the sink doesn't know the
// view by this definition. It returns each view's progress, and the servers that store the marks.
func (s *Sink) register(ctx context.Context, source string, keepers []*keeper) ([]replicator.Standing, markedOn, error) {
	// If the source and all views have been registered before, nothing is written. So `explain` and `verify` also work
	// with a server that accepts no writes, because it is full or a replica.
	if known, err := s.rdb.SIsMember(ctx, sourcesKey, source).Result(); err != nil {
		return nil, markedOn{}, classify(err, "reading "+sourcesKey)
	} else if !known {
		if err := s.rdb.SAdd(ctx, sourcesKey, source).Err(); err != nil {
			return nil, markedOn{}, classify(err, "registering the source")
		}
	}
	marked := make([]replicator.Standing, len(keepers))
	on, err := s.changeMarks(ctx, source, "", func(known map[string]*viewMark) (begin []newMark, err error) {
		var ended []error
		for i, k := range keepers {
			m := cmp.Or(known[k.view.Name], newViewMark(len(s.markKeys(source))))
			mark, ok := m.whole()
			if !ok || mark.Fingerprint != k.view.Fingerprint {
				mark = opened(k.view.Fingerprint, m.generation())
				mark.Former, mark.Keys = known[k.view.Name] != nil, m.keys(k.view.Key)
				begin = append(begin, newMark{k.view.Name, m, m.with(func(storedMark) storedMark { return mark })})
			}
			k.generation, marked[i] = mark.Generation, mark.Standing()
			k.evicted = mark.Evicted
			k.filling = mark.Phase == replicator.PhaseFilling
			k.former = mark.Former && k.filling
			if k.former {
				k.removeFormerExpiry()
			}
			if by := s.occupant(k.view, known); by != "" && k.filling {
				detail, fix := occupied(by)
				ended = append(ended, replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: %s: %s", k.view.Name,
					detail, fix)), k.view.Name))
			}
		}
		return begin, errors.Join(ended...)
	})
	return marked, on, err
}

// occupant returns the name of a view that is no longer configured, and has left keys which v can also make; "" if
// there is none. Amounts at these keys would count twice.
func (s *Sink) occupant(v *replicator.View, known map[string]*viewMark) string {
	if s.names == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		m := known[name]
		meets := func(key string) bool { return keytemplate.Meet(key, v.Key) }
		if !s.names.Has(name) && !m.vacated() && slices.ContainsFunc(m.keys(), meets) {
			return name
		}
	}
	return ""
}

// occupied returns texts for the case that `by`, a view that is no longer configured, left keys that another view can
// make: what is wrong, and what to do.
func occupied(by string) (detail, fix string) {
	return "view " + by + ", which is no longer in the configuration, left keys that this view can also make",
		"stop the program, remove them with `replicator checkpoint forget " + by + " --data`, and start; or give this " +
			"view a key that begins with other text"
}

// Marks returns the saved progress of every view that the sink holds for the source.
func (s *Sink) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	known, err := s.readMarks(ctx, source)
	if err != nil {
		return nil, err
	}
	var found []replicator.Mark
	for view, m := range known {
		if mark, ok := m.whole(); ok {
			found = append(found, replicator.Mark{View: view, Fingerprint: mark.Fingerprint, Standing: mark.Standing()})
		}
	}
	slices.SortFunc(found, func(a, b replicator.Mark) int { return cmp.Compare(a.View, b.View) })
	return found, nil
}

// Sources implements replicator.Sourced. A source that has fed a view stays in the list.
func (s *Sink) Sources(ctx context.Context) ([]string, error) {
	sources, err := s.rdb.SMembers(ctx, sourcesKey).Result()
	return sources, classify(err, "reading the sources")
}

// Forget implements replicator.Sink. Each mark keeps its key templates, and gets a higher generation (number of the
// view's definition). The clock numbers generations, and the next one must be higher still, even if the clock is
// behind. The records stay, too, so that the next fill can remove the cells' contributions.
func (s *Sink) Forget(ctx context.Context, view string) error {
	sources, err := s.Sources(ctx)
	if err != nil {
		return err
	}
	for _, source := range sources {
		if err := s.forget(ctx, source, view, storedMark{}); err != nil {
			return fmt.Errorf("forgetting view %s: %w", view, err)
		}
	}
	return nil
}

// forget replaces a view's mark by a stub, without progress. stub.Vacated says that the source's contributions were
// removed.
func (s *Sink) forget(ctx context.Context, source, view string, stub storedMark) error {
	_, err := s.changeMarks(ctx, source, "", func(known map[string]*viewMark) ([]newMark, error) {
		m := known[view]
		if m == nil {
			return nil, nil
		}
		stub.Generation, stub.Forgotten, stub.Vacated = m.generation()-1, true, stub.Vacated || m.vacated()
		if !stub.Vacated {
			stub.Keys = m.keys()
		}
		return []newMark{{view, m, m.with(func(storedMark) storedMark { return stub })}}, nil
	})
	return err
}

var _ replicator.Shared = (*Target)(nil)

// Foreign implements replicator.Shared.
func (t *Target) Foreign() []string { return t.marks.Foreign() }

// Mark saves the progress of every view of the target. It fails if the saved progress shows that the sink lost data.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	err := t.marks.Mark(at, func(marking *judge.Marking) error {
		raised := func(known map[string]*viewMark) (raise []newMark, err error) {
			for i, k := range t.keepers {
				m := known[k.view.Name]
				if err := k.check(m, marking, i); err != nil {
					return nil, err
				}
				raised := m.with(func(one storedMark) storedMark {
					one.Evicted = t.evictions.told()
					return one.at(one.Standing().Raise(at))
				})
				mark, _ := raised.whole()
				if err := marking.Note(i, mark.Standing()); err != nil {
					return nil, err
				}
				if !slices.Equal(raised.raw, m.raw) {
					raise = append(raise, newMark{k.view.Name, m, raised})
				}
			}
			return raise, nil
		}
		on, err := t.sink.changeMarks(ctx, t.source, marking.Expected(), raised)
		if err != nil {
			return err
		}
		t.evictions.setCount(on.evicted)
		return marking.Answered(on.servers)
	})
	if t.sink.cluster && errors.Is(err, judge.ErrFell) {
		return fmt.Errorf("%w: %w", replicator.ErrPartFellBack, err) // maybe only one node of the cluster lost data
	}
	return err
}

// check returns an error if the view's mark must not be raised: it is gone, damaged or lower than before, or another
// process has taken the view over.
func (k *keeper) check(m *viewMark, marking *judge.Marking, view int) error {
	if m == nil {
		return marking.Gone(view)
	}
	mark, ok := m.whole()
	switch {
	case !ok:
		return fmt.Errorf("view %s: its mark is damaged, forgotten, or missing in a part of the cluster: %w", k.view.Name,
			replicator.ErrSinkLost)
	case mark.Generation != k.generation:
		return fmt.Errorf("view %s: %w", k.view.Name, errors.Join(errNewer, replicator.ErrSinkLost))
	}
	return marking.Check(view, mark.Standing())
}
