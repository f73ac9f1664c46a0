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

// environment is shared by the histories of one test: the subject's sink, opened several times.
type environment struct {
	t       testing.TB
	subject *Subject
	targets []replicator.Target
	base    int64 // where the next history's log positions and keys begin
}

type history struct {
	env      *environment
	rnd      *rand.Rand
	source   *source
	replicas []*replica // simulated pipelines, which follow the same log
	late     []*batch   // batches that are not yet applied: from scans, and from replicas that crashed
	scans    bool
	exact    bool                         // a read of the source sees no change after its claim (see read)
	filling  bool                         // at first, views lack the rows from before `began`; then a scan puts them
	began    int64                        // the log position from which `replicas` follow the log
	inOrder  bool                         // check after each batch that no cell goes back to an older state
	forgets  bool                         // deleted cells are forgotten now and then
	marked   int64                        // the highest position that a replica has marked as applied
	floors   map[floorKey]int64           // the log position that a cell has reached in a view; older states are wrong
	seen     map[floorKey]int64           // the log's end when the cell was last re-read
	shown    map[string]map[string]string // by view: its content after the last batch
	trace    []string                     // the applied ops, for analysing a failure
}

type floorKey struct {
	view string
	cell replicator.Cell
}

// simulate runs one random history: a simulated source changes, and simulated pipelines apply its changes to the sink.
// The error of a failed history also contains the source's log and the applied ops.
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

// play runs the history and compares the views with the source. Then it deletes every row and compares them again.
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

// run makes the source change, and replicas follow, crash and scan, in random order, until everything is applied.
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

// drain applies everything that is left: all batches in h.late, and the rest of the log, which each replica applies.
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

// arrive applies one batch of h.late, chosen at random.
func (h *history) arrive(ctx context.Context) error {
	i := h.rnd.IntN(len(h.late))
	b := h.late[i]
	err := h.apply(ctx, h.rnd.IntN(len(h.env.targets)), b)
	if h.interrupted(err) {
		return nil // the batch stays in h.late, and is applied again
	}
	h.late = slices.Delete(h.late, i, i+1)
	return err
}

// forget marks how far a replica has come, and makes its target forget some of the cells that were deleted before.
// Batches of other replicas, of crashed ones, and of scans may still hold older changes of these cells.
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
	for after := ""; ; {
		if after == "" || h.rnd.IntN(4) == 0 { // the horizon may rise between two pages of ForgetGone
			horizon := h.env.base + 1 + h.rnd.Int64N(at-h.env.base)
			if err := forgetter.RaiseHorizon(ctx, horizon); h.interrupted(err) {
				return nil
			} else if err != nil {
				return fmt.Errorf("RaiseHorizon: %w", err)
			}
			h.trace = append(h.trace, fmt.Sprintf("  raised the horizon to %d", horizon))
		}
		found, next, err := forgetter.ForgetGone(ctx, after, 1+h.rnd.IntN(20))
		if h.interrupted(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("ForgetGone: %w", err)
		}
		h.trace = append(h.trace, fmt.Sprintf("  forgot %d cells", found.Forgotten))
		if after = next; after == "" || h.rnd.IntN(4) == 0 {
			return nil
		}
	}
}

// reread re-reads the cell of an op that Apply reported as unknown, and applies the current row.
func (h *history) reread(ctx context.Context, target int, op replicator.Op) error {
	i := slices.IndexFunc(h.source.cells, func(c *cell) bool { return c.id == op.Cell })
	asOf := h.claim(max(h.began, h.marked))
	b := &batch{}
	b.add(h.reset(h.source.cells[i], h.source.cells[i].newest(), asOf), read{claim: asOf, seen: h.source.now})
	return h.apply(ctx, target, b)
}

func (h *history) interrupted(err error) bool {
	return err != nil && h.env.subject.Interrupted != nil && h.env.subject.Interrupted(err)
}

// scan reads all rows now and queues them, to be put later. The puts get the log position from before the read. Each
// row is a batch of its own, because a pipeline never puts two rows of one cell in one batch.
func (h *history) scan() {
	low := h.claim(h.began)
	for _, c := range h.source.cells {
		newest := c.newest()
		if newest == nil {
			continue
		}
		if !c.versioned && !h.exact && c.newestAt(low) != c.newestAt(h.source.now) {
			continue // if log positions are the versions, a scan leaves out cells that changed meanwhile: the log has their rows
		}
		other := c.rows[h.rnd.IntN(len(c.rows))]
		for _, r := range c.rows {
			// A scan puts rows of one version in the order in which they were inserted. Only the last of them stays, so
			// the history puts only that one.
			if r.version == other.version && r.order > other.order {
				other = r
			}
		}
		for _, r := range []row{other, *newest} { // the two batches of a cell may be applied in either order
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

// claim returns the log position up to which a read of the source, made now, claims to include all changes. It is at
// least low.
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

func (h *history) apply(ctx context.Context, target int, b *batch) error {
	given := slices.Clone(b.ops)
	applied, err := h.env.targets[target].Apply(ctx, given)
	// Apply must not keep the slice, because callers reuse it.
	clear(given)
	if err != nil {
		return fmt.Errorf("Apply: %w", err)
	}
	left := slices.Concat(applied.Stale, applied.Unknown) // ops that were not applied
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
		return fmt.Errorf("Apply rejected a value that every target can hold: %w", applied.Rejected[0].Err)
	}
	if h.inOrder {
		if err := h.look(b, left); err != nil {
			return err
		}
	}
	if b.dead && h.rnd.IntN(2) == 0 {
		return nil // the process died before it could re-read the cells of the ops in Applied.Unknown
	}
	for _, i := range applied.Unknown {
		if max(b.ops[i].Order, b.ops[i].AsOf) >= h.marked {
			return fmt.Errorf("Apply reports an op as unknown that is not below the mark")
		}
		if err := h.reread(ctx, target, b.ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// look checks the views after a batch. The ops whose indexes are in `left` were not applied, so they must change
// nothing.
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

// watched reports whether histories can see a step back in a view: only if each cell has its own entry.
func watched(s *Subject, v *replicator.View) bool {
	return !s.shared(v) && v.Kind != "counter" && v.Kind != "ranking"
}

// of returns the part of a view's contents that belongs to a cell.
func of(c replicator.Cell, contents map[string]string) map[string]string {
	key := c.Key.String()
	out := map[string]string{}
	for id, text := range contents {
		if strings.HasSuffix(id, key) { // an entry's id is or ends with the cell's key (see Subject.Read)
			out[id] = text
		}
	}
	return out
}

// stepsOn checks a cell's content after an op. It must be the source's state at a position that is not below the cell's
// floor, the position that the cell has certainly reached. It then raises the floor.
func (h *history) stepsOn(v *replicator.View, op replicator.Op, read read) error {
	k := floorKey{view: v.Name, cell: op.Cell}
	floor := h.floors[k]
	switch {
	case read.claim != 0 && op.AsOf == 0:
		// A scan puts single rows. The row may be older than the cell's newest row, or from a change after the scan's
		// claim. So what the view shows now can't be checked.
		return nil
	case read.claim != 0: // a re-read of all rows of the cell: the view shows position read.claim or later
		floor = max(floor, read.claim)
		h.seen[k] = max(h.seen[k], read.seen)
	case op.Order != 0 && op.Order <= h.seen[k]:
		// An earlier re-read saw the log beyond this put, and may have seen later deletes. Until the log reaches that
		// point, the view may show an older row of the cell, so there is nothing to check.
		return nil
	}
	i := slices.IndexFunc(h.source.cells, func(c *cell) bool { return c.id == op.Cell })
	c := h.source.cells[i]
	shown := of(op.Cell, h.shown[v.Name])
	past := append([]moment{{}}, c.past...)
	for i, m := range past {
		if i+1 < len(past) && past[i+1].order <= floor {
			continue // at the position `floor` the cell had left the state m, so the view must not show m
		}
		var b body
		if m.newest != nil {
			b = m.newest.body
		}
		if !maps.Equal(shown, contents(v, []contribution{{op.Cell, h.env.subject.entries(v, op.Cell, b)}})) {
			continue
		}
		if read.claim == 0 { // for a re-read (claim > 0), `floor` was raised to the claim above
			floor = max(floor, m.order)
		}
		h.floors[k] = floor
		return nil
	}
	return fmt.Errorf("view %s: %s steps back: it had reached order %d. After the op with version %d, order %d and "+
		"as-of %d, it shows %v", v.Name, op.Cell, floor, op.Version, op.Order, op.AsOf, shown)
}

// compare checks that every view has the content that the newest remaining rows give.
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
