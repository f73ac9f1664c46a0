package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"replicator"
)

// apply turns pending changes into ops, applies them and sees to their dead letters. All is durable when it returns
// nil.
//
// What bodies come to was not charged when they were read: compressed ones, and pickles that name one value many times,
// may be a thousand times their size. So a batch is cut where its contributions become too large.
func (s *session) apply(ctx context.Context, batch []*pending) error {
	looks, err := s.looks(ctx, batch)
	if err != nil {
		return err
	}
	b := &opBatch{ops: make([]replicator.Op, 0, len(batch)), rows: make([]*replicator.Row, 0, len(batch)), changes: make([]*pending, 0, len(batch))}
	for _, p := range batch {
		switch {
		case looks[p.cell] != nil:
			continue
		case p.put != nil:
			s.evaluate(b, p, replicator.Op{Cell: p.cell, Version: p.put.Version, Order: p.put.Order, Rewrite: p.rewrite}, p.put)
		case p.goneAt != 0:
			s.evaluate(b, p, replicator.Op{Cell: p.cell, Version: replicator.NoVersion, AsOf: p.goneAt, Rewrite: p.rewrite}, nil)
		default:
			b.changes = append(b.changes, p) // an archived version: nothing changes
		}
		if err := s.writeFull(ctx, b); err != nil {
			return err
		}
	}
	if len(looks) > 0 {
		if err := s.applyLooks(ctx, b, looks); err != nil {
			return err
		}
	}
	return s.write(ctx, b)
}

// opBatch is what goes into one call of Target.Apply.
type opBatch struct {
	ops     []replicator.Op
	rows    []*replicator.Row // of each op; nil where the cell is gone
	changes []*pending        // that the ops are made of, with those that come to nothing
	size    int64             // of the ops' contributions, and of rows that a look read: what was not taken from the budget
}

// evaluate adds an op with what its row contributes.
func (s *session) evaluate(b *opBatch, p *pending, op replicator.Op, row *replicator.Row) {
	op.Rewrite = op.Rewrite || s.run.repairing() // then what the tail brings is written, too: the scan's row of the cell will be stale
	op.Values = s.run.evaluator.Evaluate(op.Cell, row)
	for _, v := range op.Values {
		b.size += v.Size()
	}
	b.ops, b.rows, b.changes = append(b.ops, op), append(b.rows, row), append(b.changes, p)
}

// applyLooks reads what remains of cells from the source, no more at a time than a batch has room for.
func (s *session) applyLooks(ctx context.Context, b *opBatch, looks map[replicator.Cell]*pending) error {
	cells := slices.Collect(maps.Keys(looks))
	for len(cells) > 0 {
		newest, asOf, err := s.reader.Newest(ctx, cells, s.share()-b.size)
		if err != nil {
			return fmt.Errorf("reading the newest rows of %d cells: %w", len(cells), err)
		}
		for i, row := range newest {
			p := looks[cells[i]]
			op := replicator.Op{Cell: cells[i], Version: replicator.NoVersion, AsOf: asOf, Rewrite: p.rewrite}
			if row != nil {
				op.Version = row.Version
				b.size += row.Size()
			}
			s.evaluate(b, p, op, row)
			if err := s.writeFull(ctx, b); err != nil {
				return err
			}
		}
		cells = cells[len(newest):]
	}
	return nil
}

// share is what a lane's batch may come to beside what was taken from the budget: of all lanes, half as much again.
func (s *session) share() int64 { return max(s.budget.total/int64(2*len(s.lanes)), 1) }

// writeFull writes a batch that has become too large to gather more of it.
func (s *session) writeFull(ctx context.Context, b *opBatch) error {
	if b.size < s.share() {
		return nil
	}
	return s.write(ctx, b)
}

// write applies a batch, and empties it.
func (s *session) write(ctx context.Context, b *opBatch) error {
	if len(b.ops) > 0 {
		began := time.Now()
		applied, err := s.target.Apply(ctx, b.ops)
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.run.pipeline.Name, err)
		}
		s.run.observer().Batch(s.run.pipeline.Name, len(b.ops), time.Since(began))
		if err := s.settle(ctx, b.ops, b.rows, applied); err != nil {
			return err
		}
		s.count(b.changes, b.ops, applied)
	}
	var size int64
	for _, p := range b.changes {
		size += p.size
		p.put = nil // the lane has the change until all that it took is applied
	}
	*b = opBatch{}
	s.budget.give(size)
	return nil
}

// looks returns the cells that must be read from the source: those of which a version was deleted that the sink may
// stand at.
func (s *session) looks(ctx context.Context, batch []*pending) (map[replicator.Cell]*pending, error) {
	var cells []replicator.Cell
	var asked []*pending
	for _, p := range batch {
		if p.deleted != replicator.NoVersion {
			cells, asked = append(cells, p.cell), append(asked, p)
		}
	}
	if len(cells) == 0 {
		return nil, nil
	}
	versions, err := s.target.Versions(ctx, cells)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", s.run.pipeline.Name, err)
	}
	looks := map[replicator.Cell]*pending{}
	for i, p := range asked {
		if p.deleted >= versions[i] {
			looks[p.cell] = p
		}
	}
	return looks, nil
}

// settle buries what could not be computed or written, and raises the dead letters that something newer made obsolete:
// both before the batch counts as applied, so that the checkpoint can't pass what is neither in the sink nor a dead
// letter.
func (s *session) settle(ctx context.Context, ops []replicator.Op, rows []*replicator.Row, applied replicator.Applied) error {
	type place struct{ op, view int }
	bad, dead := map[place]bool{}, map[place]bool{}
	var letters []replicator.DeadLetter
	stale := map[int]bool{}
	for _, i := range applied.Stale {
		stale[i] = true
	}
	for _, d := range applied.Dead {
		dead[place{d.Op, d.View}] = true
	}
	bury := func(i, view int, reason string, err error) {
		bad[place{i, view}] = true
		letters = append(letters, s.deadLetter(ops[i], rows[i], view, err))
		s.run.observer().DeadLetter(s.run.views[view].ShownAs(), reason)
		s.run.pipeline.letters.add(s.run.pipeline, s.run.views[view].ShownAs(), reason, letters[len(letters)-1])
	}
	for i, op := range ops {
		for _, v := range op.Values {
			late := op.AsOf != 0 && dead[place{i, v.View}] // a look that another replicator's overtook: both found this
			if v.Err != nil && (!stale[i] || late) {
				reason := "evaluate"
				if rows[i] != nil && rows[i].Err != nil {
					reason = "row"
				}
				bury(i, v.View, reason, v.Err)
			}
		}
	}
	for _, r := range applied.Rejected {
		if !bad[place{r.Op, r.View}] {
			bury(r.Op, r.View, "rejected", r.Err)
		}
	}
	if len(letters) > 0 {
		if err := s.run.pipeline.Store.Bury(ctx, letters); err != nil {
			return fmt.Errorf("saving %d dead letters: %w", len(letters), err)
		}
	}
	if err := s.unburied(ctx, ops, rows, applied.Dead); err != nil {
		return err
	}
	good := make([][]replicator.Cell, len(s.run.views))
	for i, op := range ops {
		for _, v := range op.Values { // of a stale one, too: what another replicator put there instead is not dead
			if !bad[place{i, v.View}] && !dead[place{i, v.View}] {
				good[v.View] = append(good[v.View], op.Cell)
			}
		}
	}
	for i, v := range s.run.views {
		if len(good[i]) == 0 {
			continue
		}
		if err := s.run.pipeline.Store.Raise(ctx, v.Name, good[i]); err != nil {
			return fmt.Errorf("removing obsolete dead letters of view %s: %w", v.Name, err)
		}
	}
	return nil
}

// deadLetter is the dead letter of one op and view.
func (s *session) deadLetter(op replicator.Op, row *replicator.Row, view int, err error) replicator.DeadLetter {
	d := replicator.DeadLetter{
		View: s.run.views[view].Name, Source: s.run.pipeline.Source.Name(), Cell: op.Cell, Version: op.Version,
		Order: op.Order, Reason: err.Error(), Time: time.Now().UTC(),
	}
	if d.Order == 0 {
		d.Order = op.AsOf
	}
	d.Position = s.reader.Locate(d.Order)
	if row != nil {
		d.Raw = rawRow(row)
	}
	return d
}

// rawRow is what of a row is kept in a dead letter: the body as stored, or the columns as JSON.
func rawRow(row *replicator.Row) []byte {
	if row.Body != nil {
		if row.Text != nil {
			if text, err := row.Text(row.Body); err == nil {
				return text
			}
		}
		return row.Body
	}
	columns := make(map[string]string, len(row.Columns))
	for i, v := range row.Columns {
		if v != nil && i < len(row.Names) {
			columns[row.Names[i]] = replicator.FormatValue(v)
		}
	}
	raw, _ := json.Marshal(columns) // a map of strings can always be marshalled
	return raw
}

// count tells the observer what a batch did.
func (s *session) count(batch []*pending, ops []replicator.Op, applied replicator.Applied) {
	stale := map[int]bool{}
	for _, i := range applied.Stale {
		stale[i] = true
	}
	puts, resets, old := make([]int, len(s.run.views)), make([]int, len(s.run.views)), make([]int, len(s.run.views))
	for i, op := range ops {
		for _, v := range op.Values {
			switch {
			case stale[i]:
				old[v.View]++
			case op.AsOf != 0:
				resets[v.View]++
			default:
				puts[v.View]++
			}
		}
	}
	now := time.Now()
	for i, v := range s.run.views {
		s.run.applied[i].Add(int64(puts[i] + resets[i]))
		for _, c := range []struct {
			n  int
			do func(int)
		}{
			{puts[i], func(n int) { s.run.observer().Applied(v.ShownAs(), "put", n) }},
			{resets[i], func(n int) { s.run.observer().Applied(v.ShownAs(), "reset", n) }},
			{old[i], func(n int) { s.run.observer().Stale(v.ShownAs(), n) }},
		} {
			if c.n > 0 {
				c.do(c.n)
			}
		}
	}
	for _, p := range batch {
		if p.since.IsZero() {
			continue
		}
		for _, v := range s.run.views {
			if v.Feeds(p.cell) {
				s.run.observer().Visible(v.ShownAs(), now.Sub(p.since))
			}
		}
	}
}
