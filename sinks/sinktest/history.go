package sinktest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"replicator"
)

// environment is what the histories of one test share: the subject's sink, opened several times.
type environment struct {
	t       testing.TB
	subject *Subject
	targets []replicator.Target
	base    int64 // where the next history's orders and keys begin
}

// history is one random history.
type history struct {
	env      *environment
	rnd      *rand.Rand
	source   *source
	replicas []*replica
	late     []*batch // batches of crashed replicas and scans that are yet to arrive
	scans    bool
	exact    bool                         // reads of the source see no more than they claim
	filling  bool                         // the source has a past that only a scan brings: until then views are incomplete
	began    int64                        // where the replicas began to follow
	inOrder  bool                         // watch for steps back
	forgets  bool                         // what is gone is forgotten now and then
	marked   int64                        // the highest place that was marked
	floors   map[floorKey]int64           // the place that a cell is known to have reached
	seen     map[floorKey]int64           // the place up to which a look saw, whatever it claimed
	shown    map[string]map[string]string // by view: what it held after the last batch
	trace    []string                     // the ops applied, for whoever must understand a failure
}

type floorKey struct {
	view string
	cell replicator.Cell
}

// simulate tries one history and returns what went wrong, with the log of the source and the ops.
func (env *environment) simulate(ctx context.Context, seed uint64) error {
	h := env.newHistory(seed)
	if err := h.play(ctx); err != nil {
		return fmt.Errorf("%w\nthe source's log:\n%s\nthe ops:\n%s", err, h.source.describe(), strings.Join(h.trace, "\n"))
	}
	env.base = h.source.now + 1000
	return nil
}

func (env *environment) newHistory(seed uint64) *history {
	rnd := rand.New(rand.NewPCG(seed, 0x5eed))
	h := &history{env: env, rnd: rnd, exact: rnd.IntN(2) == 0, floors: map[floorKey]int64{}, seen: map[floorKey]int64{}}
	ties := rnd.IntN(4) == 0
	h.scans = rnd.IntN(2) == 0
	h.source = newSource(rnd, env.subject, env.base, ties)
	h.filling = h.scans && rnd.IntN(3) == 0
	h.inOrder = !h.filling && env.subject.Interrupted == nil
	h.forgets = rnd.IntN(2) == 0
	start := 0
	if h.filling {
		for range rnd.IntN(15) {
			h.source.change()
		}
		start, h.began = len(h.source.log), h.source.now
	}
	for i := range 1 + rnd.IntN(3) {
		h.replicas = append(h.replicas, &replica{h: h, target: i % len(env.targets), read: start, done: start})
	}
	return h
}

// play lets it all happen, and compares.
func (h *history) play(ctx context.Context) error {
	if err := h.run(ctx, 5+h.rnd.IntN(30)); err != nil {
		return err
	}
	if err := h.compare("at the end"); err != nil {
		return err
	}
	h.source.clear()
	if err := h.drain(ctx); err != nil {
		return err
	}
	return h.compare("after every row was deleted")
}

// run lets the source change, replicas follow, crash and scan, in random order, until all is applied.
func (h *history) run(ctx context.Context, changes int) error {
	if h.filling {
		h.scan()
	}
	for changes > 0 {
		switch n := h.rnd.IntN(20); {
		case n < 6:
			h.source.change()
			changes--
		case n == 6 && h.scans:
			h.scan()
		case n == 7:
			h.replicas[h.rnd.IntN(len(h.replicas))].crash()
		case n == 8 && len(h.late) > 0:
			if err := h.arrive(ctx); err != nil {
				return err
			}
		case n == 9 && h.forgets:
			if err := h.forget(ctx); err != nil {
				return err
			}
		default:
			if _, err := h.replicas[h.rnd.IntN(len(h.replicas))].step(ctx); err != nil {
				return err
			}
		}
	}
	return h.drain(ctx)
}

// drain lets everything be applied: the late batches, and every replica to the log's end.
func (h *history) drain(ctx context.Context) error {
	for {
		if len(h.late) > 0 && h.rnd.IntN(3) == 0 {
			if err := h.arrive(ctx); err != nil {
				return err
			}
		}
		if h.forgets && h.rnd.IntN(8) == 0 {
			if err := h.forget(ctx); err != nil {
				return err
			}
		}
		busy := len(h.late) > 0
		for _, r := range h.replicas {
			some, err := r.step(ctx)
			if err != nil {
				return err
			}
			busy = busy || some
		}
		if !busy {
			return h.mark(ctx)
		}
	}
}

func (h *history) mark(ctx context.Context) error {
	for _, r := range h.replicas {
		p := replicator.Position{Order: h.source.now, Token: "end"}
		if err := h.env.targets[r.target].Mark(ctx, replicator.Standing{Position: p}); err != nil {
			return fmt.Errorf("Mark: %w", err)
		}
	}
	return nil
}

// arrive applies one of the late batches. Those of a scan keep their order: a scan is one process.
func (h *history) arrive(ctx context.Context) error {
	i := h.rnd.IntN(len(h.late))
	b := h.late[i]
	err := h.apply(ctx, h.rnd.IntN(len(h.env.targets)), b)
	if h.interrupted(err) {
		return nil // it arrives once more: a scan goes on where it stood
	}
	h.late = slices.Delete(h.late, i, i+1)
	return err
}

// forget marks how far a replica has come and has its target forget what is gone below some place that it has passed,
// all of it or some. What is on its way meanwhile, of other replicas, dead ones, and scans, is below that as well.
func (h *history) forget(ctx context.Context) error {
	r := h.replicas[h.rnd.IntN(len(h.replicas))]
	target := h.env.targets[r.target]
	forgetter, ok := target.(replicator.Forgetter)
	if !ok || r.done == 0 {
		return nil
	}
	at := h.source.log[r.done-1].place
	h.marked = max(h.marked, at)
	err := target.Mark(ctx, replicator.Standing{Position: replicator.Position{Order: at, Token: "p"}})
	if h.interrupted(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("Mark: %w", err)
	}
	horizon := h.env.base + 1 + h.rnd.Int64N(at-h.env.base)
	for after := ""; ; {
		found, next, err := forgetter.ForgetGone(ctx, horizon, after, 1+h.rnd.IntN(20))
		if h.interrupted(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("ForgetGone: %w", err)
		}
		h.trace = append(h.trace, fmt.Sprintf("  forgot %d cells, horizon %d", found.Forgotten, horizon))
		if after = next; after == "" || h.rnd.IntN(4) == 0 {
			return nil
		}
	}
}

// reread reads a cell again that an op is unknown of, and applies what it has now. A dead process does not.
func (h *history) reread(ctx context.Context, target int, op replicator.Op) error {
	i := slices.IndexFunc(h.source.cells, func(c *cell) bool { return c.id == op.Cell })
	asOf := h.claim(max(h.began, h.marked))
	b := &batch{}
	b.add(h.reset(h.source.cells[i], h.source.cells[i].newest(), asOf), read{claim: asOf, seen: h.source.now})
	return h.apply(ctx, target, b)
}

// interrupted reports whether a batch was left half applied.
func (h *history) interrupted(err error) bool {
	return err != nil && h.env.subject.Interrupted != nil && h.env.subject.Interrupted(err)
}

// scan reads all rows now, to be put later at the place before the read. A chunk holds a cell once: lanes coalesce.
func (h *history) scan() {
	low := h.claim(h.began)
	for _, c := range h.source.cells {
		newest := c.newest()
		if newest == nil {
			continue
		}
		if !c.versioned && !h.exact && c.newestAt(low) != c.newestAt(h.source.now) {
			continue // a pipeline leaves to the tail what changed while a chunk was read, where the place is the version
		}
		other := c.rows[h.rnd.IntN(len(c.rows))]
		for _, r := range c.rows {
			// Of rows with equal versions a scan puts the last one last; that stands for all of them here. (If an earlier one is
			// updated in place, the log says that it counts and a scan can't know: only a unique key prevents that.)
			if r.version == other.version && r.order > other.order {
				other = r
			}
		}
		for _, r := range []row{other, *newest} { // whichever way the chunks are cut
			at := &batch{}
			version := r.version
			if !c.versioned {
				version = low
			}
			at.add(h.put(c, row{version: version, body: r.body}, low), read{claim: low, seen: h.source.now})
			h.late = append(h.late, at)
		}
	}
}

// claim is the place that a read of the source made now says it includes; no lower than low.
func (h *history) claim(low int64) int64 {
	if h.exact {
		return h.source.now
	}
	return h.source.earlier(low)
}

func (h *history) put(c *cell, r row, order int64) replicator.Op {
	return replicator.Op{Cell: c.id, Version: r.version, Order: order, Values: h.env.subject.values(c.id, r.body)}
}

func (h *history) reset(c *cell, newest *row, asOf int64) replicator.Op {
	op := replicator.Op{Cell: c.id, Version: replicator.NoVersion, AsOf: asOf, Values: h.env.subject.values(c.id, nil)}
	if newest != nil {
		op.Version, op.Values = newest.version, h.env.subject.values(c.id, newest.body)
	}
	return op
}

// apply applies a batch and looks at what the views show then.
func (h *history) apply(ctx context.Context, target int, b *batch) error {
	given := slices.Clone(b.ops)
	applied, err := h.env.targets[target].Apply(ctx, given)
	clear(given) // the caller uses the slice again
	if err != nil {
		return fmt.Errorf("Apply: %w", err)
	}
	left := slices.Concat(applied.Stale, applied.Unknown) // that were not applied
	for i, op := range b.ops {
		how := "applied"
		switch {
		case slices.Contains(applied.Stale, i):
			how = "stale"
		case slices.Contains(applied.Unknown, i):
			how = "unknown"
		}
		h.trace = append(h.trace, fmt.Sprintf("  %s %s: version %d order %d as-of %d, %s", how, op.Cell, op.Version,
			op.Order, op.AsOf, b.reads[i]))
	}
	if len(applied.Rejected) > 0 {
		return fmt.Errorf("Apply rejected what every target can hold: %w", applied.Rejected[0].Err)
	}
	if h.inOrder {
		if err := h.look(b, left); err != nil {
			return err
		}
	}
	if b.dead && h.rnd.IntN(2) == 0 {
		return nil // nobody hears the answer
	}
	for _, i := range applied.Unknown {
		if max(b.ops[i].Order, b.ops[i].AsOf) >= h.marked {
			return fmt.Errorf("Apply does not know what to make of an op that is not below what was marked")
		}
		if err := h.reread(ctx, target, b.ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// look looks at what the views show after a batch of which some ops were not applied.
func (h *history) look(b *batch, left []int) error {
	before := h.shown
	h.shown = map[string]map[string]string{}
	for _, v := range h.env.subject.Views {
		if !watched(h.env.subject, v) {
			continue
		}
		h.shown[v.Name] = h.env.subject.Read(h.env.t, v)
		for i, op := range b.ops {
			if !v.Feeds(op.Cell) {
				continue
			}
			if slices.Contains(left, i) {
				if before != nil && !maps.Equal(of(op.Cell, before[v.Name]), of(op.Cell, h.shown[v.Name])) {
					return fmt.Errorf("view %s: %s changed although the op was reported as stale or unknown", v.Name, op.Cell)
				}
				continue
			}
			if err := h.stepsOn(v, op, b.reads[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// watched reports whether a step back of a view can be seen: what a cell shows must be its own.
func watched(s *Subject, v *replicator.View) bool {
	return !s.shared(v) && v.Kind != "counter" && v.Kind != "ranking"
}

// of is the part of a view's contents that belongs to a cell.
func of(c replicator.Cell, contents map[string]string) map[string]string {
	key := c.Key.String()
	out := map[string]string{}
	for id, text := range contents {
		if strings.HasSuffix(id, key) { // behind a prefix, a value, or nothing
			out[id] = text
		}
	}
	return out
}

// stepsOn checks that what a cell shows after an op was the source's state at some place not below the one that it is
// known to have reached, and raises that.
func (h *history) stepsOn(v *replicator.View, op replicator.Op, read read) error {
	k := floorKey{view: v.Name, cell: op.Cell}
	floor := h.floors[k]
	switch {
	case read.claim != 0 && op.AsOf == 0:
		// A scan's row says nothing of the cell's other rows: an older one of them, or one that the log has yet to bring, may
		// show for a moment. So a scan raises no floor. A view that must not be seen so is filled in a shadow.
		return nil
	case read.claim != 0: // a full look: the cell as it was at the claim, or later
		floor = max(floor, read.claim)
		h.seen[k] = max(h.seen[k], read.seen)
	case op.Order != 0 && op.Order <= h.seen[k]:
		// The look saw later deletes that this put comes before: a row that others hid may show until the log reaches the
		// place where the look was made.
		return nil
	}
	i := slices.IndexFunc(h.source.cells, func(c *cell) bool { return c.id == op.Cell })
	c := h.source.cells[i]
	shown := of(op.Cell, h.shown[v.Name])
	past := append([]moment{{}}, c.past...)
	for i, m := range past {
		if i+1 < len(past) && past[i+1].order <= floor {
			continue // over before the floor
		}
		var b body
		if m.newest != nil {
			b = m.newest.body
		}
		if !maps.Equal(shown, contents(v, []contribution{{op.Cell, h.env.subject.entries(v, op.Cell, b)}})) {
			continue
		}
		if read.claim == 0 { // else the look may have seen past what it claims: it is held to its claim only
			floor = max(floor, m.order)
		}
		h.floors[k] = floor
		return nil
	}
	return fmt.Errorf("view %s: %s steps back: it had reached place %d and shows %v after {version %d order %d as-of %d}",
		v.Name, op.Cell, floor, shown, op.Version, op.Order, op.AsOf)
}

// compare checks that every view is the function of the newest remaining rows.
func (h *history) compare(when string) error {
	for _, v := range h.env.subject.Views {
		var from []contribution
		for _, c := range h.source.cells {
			if n := c.newest(); n != nil && v.Feeds(c.id) {
				from = append(from, contribution{c.id, h.env.subject.entries(v, c.id, n.body)})
			}
		}
		want, got := contents(v, from), h.env.subject.Read(h.env.t, v)
		if !maps.Equal(got, want) {
			return fmt.Errorf("%s view %s holds\n%s\nbut the newest rows make\n%s", when, v.Name, list(got), list(want))
		}
	}
	return nil
}

func list(contents map[string]string) string {
	var lines []string
	for id, text := range contents {
		lines = append(lines, "  "+id+" "+text)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
