package sinktest

import (
	"context"
	"fmt"
	"slices"

	"replicator"
)

// replica is a replicator that follows the source's log as a pipeline does.
type replica struct {
	h       *history
	target  int // the index of the replica's target in environment.targets
	read    int
	done    int       // how many events are completely applied: after a crash, the replica starts again there
	pending []pending // changes that are not in a batch yet; at most one element for each cell
	batch   *batch    // the batch that was made, but is not yet applied; nil: none
}

// pending is what a replica knows about a cell since its last batch: the newest put, or that it must re-read the cell.
type pending struct {
	cell    *cell
	put     *event
	deleted int64 // the highest version that was deleted; NoVersion if none
	last    int64 // the position of the last change
	gone    int64 // for a cell with at most one row: the position of that row's delete
}

type batch struct {
	ops   []replicator.Op
	reads []read // for each op, the read that it came from; zero if it came from the log
	until int    // once the batch is applied, all events before this index are applied
	dead  bool   // the process that made the batch has ended
}

// read is a read of the source. It saw all changes up to the position `seen`. It claims to include only those up to the
// position `claim`, which may be lower.
type read struct{ claim, seen int64 }

func (r read) String() string {
	if r.claim == 0 {
		return "from the log"
	}
	return fmt.Sprintf("read at %d", r.seen)
}

// follow reads the next few events.
func (r *replica) follow() {
	for range 1 + r.h.rnd.IntN(4) {
		if r.read == len(r.h.source.log) {
			return
		}
		r.take(r.h.source.log[r.read])
		r.read++
	}
}

// take makes an event pending. It may drop what State.Next would ignore: the older of two puts, a delete of a version
// below a pending put's, and a delete that is followed by a put of the same or a higher version.
func (r *replica) take(e event) {
	i := slices.IndexFunc(r.pending, func(p pending) bool { return p.cell == e.cell })
	if i < 0 {
		i = len(r.pending)
		r.pending = append(r.pending, pending{cell: e.cell, deleted: replicator.NoVersion})
	}
	p := &r.pending[i]
	p.last = e.place
	switch {
	case !e.gone:
		p.gone = 0
		if p.put == nil || e.row.version >= p.put.row.version {
			p.put = &e
			if e.row.version >= p.deleted {
				p.deleted = replicator.NoVersion
			}
		}
	case !e.cell.versioned:
		p.put, p.gone = nil, e.place
	case p.put == nil || p.put.row.version <= e.row.version:
		p.deleted = max(p.deleted, e.row.version)
	}
}

// prepare makes a batch of the pending changes. If a cell must be re-read, it reads the cell from the source.
func (r *replica) prepare(ctx context.Context) error {
	b := &batch{until: r.read}
	var cells []replicator.Cell
	for _, p := range r.pending {
		cells = append(cells, p.cell.id)
	}
	versions, err := r.h.env.targets[r.target].Versions(ctx, cells)
	if err != nil {
		return fmt.Errorf("Versions: %w", err)
	}
	for i, p := range r.pending {
		switch {
		case p.deleted != replicator.NoVersion && p.deleted >= versions[i].Lowest:
			asOf := r.h.claim(p.last)
			b.add(r.h.reset(p.cell, p.cell.newest(), asOf), read{claim: asOf, seen: r.h.source.now})
		case p.put != nil:
			b.add(r.h.put(p.cell, p.put.row, p.put.place), read{})
		case p.gone != 0:
			b.add(r.h.reset(p.cell, nil, p.gone), read{})
		}
	}
	r.h.rnd.Shuffle(len(b.ops), func(i, j int) {
		b.ops[i], b.ops[j] = b.ops[j], b.ops[i]
		b.reads[i], b.reads[j] = b.reads[j], b.reads[i]
	})
	r.pending, r.batch = nil, b
	return nil
}

func (b *batch) add(op replicator.Op, from read) {
	b.ops, b.reads = append(b.ops, op), append(b.reads, from)
}

// apply applies the batch, in one or two parts, once or twice.
func (r *replica) apply(ctx context.Context) error {
	b := r.batch
	cut := r.h.rnd.IntN(len(b.ops) + 1)
	parts := []batch{{ops: b.ops[:cut], reads: b.reads[:cut]}, {ops: b.ops[cut:], reads: b.reads[cut:]}}
	for _, part := range parts {
		if len(part.ops) == 0 {
			continue
		}
		for range 1 + r.h.rnd.IntN(5)/4 {
			if err := r.h.apply(ctx, r.target, &part); r.h.interrupted(err) {
				r.crash()
				return nil
			} else if err != nil {
				return err
			}
		}
		if r.h.rnd.IntN(20) == 0 {
			r.crash()
			return nil
		}
	}
	r.batch, r.done = nil, b.until
	return nil
}

// crash drops everything in memory. A prepared batch may still reach the sink later, because of the network or a slow
// process.
func (r *replica) crash() {
	if r.batch != nil && len(r.batch.ops) > 0 && r.h.rnd.IntN(2) == 0 {
		r.batch.dead = true
		r.h.late = append(r.h.late, r.batch)
	}
	if r.h.rnd.IntN(4) == 0 { // the replica's checkpoint was older or lost
		r.done = r.h.rnd.IntN(r.done + 1)
	}
	r.pending, r.batch, r.read = nil, nil, r.done
}

// step does one thing: it applies a batch, makes one, or reads events. It returns false if there is nothing to do.
func (r *replica) step(ctx context.Context) (bool, error) {
	switch {
	case r.batch != nil:
		return true, r.apply(ctx)
	case len(r.pending) > 0 && (r.read == len(r.h.source.log) || r.h.rnd.IntN(2) == 0):
		return true, r.prepare(ctx)
	case r.read < len(r.h.source.log):
		r.follow()
		return true, nil
	}
	return false, nil
}
