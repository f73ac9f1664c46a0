package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/pause"
)

// found is a mark that was read: mark is nil if it was taken away, err says why it can't be read.
type found struct {
	mark   *changelog.Mark
	err    error
	offset int64
}

// settling is how long readers of marks wait for transactions that are open. A commit is acknowledged before the
// brokers have written what ends it into the partitions, so that a mark which was just set may look open for a moment.
const settling = time.Second

// allMarks reads the topic of a topic's marks, and returns where to go on.
func (s *Sink) allMarks(ctx context.Context, t *topic) (map[place]found, int64, error) {
	marks, from := map[place]found{}, int64(0)
	for late := time.Now().Add(settling); ; {
		some, next, end, err := s.readMarks(ctx, t, from)
		if err != nil {
			return nil, 0, err
		}
		maps.Copy(marks, some)
		if next >= end || time.Now().After(late) {
			return marks, next, nil
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return nil, 0, err
		}
		from = next
	}
}

// readMarks reads the topic of a topic's marks from an offset to its end, and returns where to go on: before the end
// where a transaction is open. It does not wait for that: the transaction of a publisher that was killed is ended by
// who takes the view over, and before that its marks are read.
func (s *Sink) readMarks(ctx context.Context, t *topic, from int64) (
	marks map[place]found, next, end int64, err error,
) {
	ends, err := s.ends(ctx, t.marks.name)
	if err != nil {
		return nil, 0, 0, err
	}
	marks, end = map[place]found{}, ends[t.marks.name][0]
	next, err = changelog.ReadPast(ctx, s.options, t.marks.name, 0, from, end, func(records []*kgo.Record) error {
		for _, r := range records {
			view, source, m, err := changelog.DecodeMark(r)
			if view == "" {
				return fmt.Errorf("topic %s, offset %d: %w", r.Topic, r.Offset, err)
			}
			marks[place{source, view}] = found{m, err, r.Offset}
		}
		return nil
	})
	if err != nil {
		return nil, 0, 0, fmt.Errorf("marks: %w", err)
	}
	return marks, next, end, nil
}

// register finds the view's mark, or makes the first one: of a view that was never marked, of which nothing is known.
func (k *keeper) register(ctx context.Context) error {
	marks, end, err := k.sink.allMarks(ctx, k.topic)
	if err != nil {
		return err
	}
	k.marksRead = end
	if err := k.alone(marks); err != nil {
		return err
	}
	m := marks[place{k.source, k.view.Name}]
	if m.err != nil {
		return replicator.OfView(fmt.Errorf("%w; `replicator rebuild %s` begins anew", m.err, k.view.Name),
			k.view.Name)
	}
	if m.mark != nil && m.mark.Fingerprint == k.view.Fingerprint {
		lost, err := k.sink.lost(ctx, k.topic, m.mark)
		if err != nil {
			return err
		}
		if lost == nil && m.mark.Partitions > k.topic.partitions {
			return replicator.OfView(replicator.Fatal(fmt.Errorf(
				"view %s: topic %s has %d partitions, and had %d", k.view.Name, k.topic.name,
				k.topic.partitions, m.mark.Partitions)), k.view.Name)
		}
		if lost == nil {
			k.mark = m.mark
			return nil
		}
	}
	spread, err := k.spread(ctx, marks)
	if err != nil {
		return err
	}
	k.mark = &changelog.Mark{View: k.view.Name, Source: k.source, Fingerprint: k.view.Fingerprint, Topic: k.topic.id,
		Partitions: spread, Standing: replicator.Standing{Fill: map[string]replicator.Progress{}}}
	ends, err := k.sink.ends(ctx, k.topic.name)
	if err != nil {
		return err
	}
	starts, err := k.sink.starts(ctx, k.topic.name)
	if err != nil {
		return err
	}
	for p := range k.topic.partitions {
		k.mark.Forgotten = append(k.mark.Forgotten, ends[k.topic.name][int32(p)])
		k.mark.Starts = append(k.mark.Starts, starts[int32(p)])
	}
	return nil
}

// spread is over how many partitions the topic's cells are spread: those that it had when it was first kept, for as
// long as it is the same (its id), whatever becomes of views and marks. A cell that went to a partition that was added
// would have two records that are newest. Marks of whatever view and source say the number: those in the topic of
// marks, and, where none of them is of this topic, those that stand in its partitions.
func (k *keeper) spread(ctx context.Context, marks map[place]found) (int, error) {
	n := 0
	for _, m := range marks {
		if m.mark != nil && m.mark.Topic == k.topic.id {
			n = changelog.Fewest(n, m.mark.Partitions)
		}
	}
	if n > 0 {
		return n, nil
	}
	if err := k.catchUp(ctx); err != nil {
		return 0, err
	}
	switch n, held := k.table.Spread(); {
	case n > 0:
		return n, nil
	case held:
		return 0, replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: topic %s holds records and no "+
			"mark that says over how many partitions they are spread: name another topic, and the view is "+
			"filled into that",
			k.view.Name, k.topic.name)), k.view.Name)
	}
	return k.topic.partitions, nil
}

// writeMark writes the mark into every partition and, with the places where it stands there, into the topic of marks:
// in one transaction, behind all that it stands for.
func (k *keeper) writeMark(ctx context.Context, at replicator.Standing) error {
	next := *k.mark
	next.Standing, next.Time, next.Offsets = at, time.Now(), nil
	short := next
	short.Topic, short.Forgotten, short.Starts = "", nil, nil
	// Partitions that were added hold no cells, but readers of them wait for marks, too.
	behind := make([]*kgo.Record, k.topic.partitions)
	for p := range behind {
		behind[p] = changelog.EncodeMark(&short)
		behind[p].Topic, behind[p].Partition = k.topic.name, int32(p)
	}
	var last *kgo.Record
	err := k.transact(ctx, behind, func() []*kgo.Record {
		for _, r := range behind {
			next.Offsets = append(next.Offsets, r.Offset)
		}
		last = changelog.EncodeMark(&next)
		last.Topic = k.topic.marks.name
		return []*kgo.Record{last}
	})
	if err != nil {
		return err
	}
	k.mark = &next
	k.marksRead = last.Offset + 1
	return nil
}

// stood is the view's mark as the sink has it now; nil if it is gone.
func (k *keeper) stood(ctx context.Context) (*replicator.Standing, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ends, err := k.sink.ends(ctx, k.topic.name, k.topic.marks.name)
	if err != nil {
		return nil, err
	}
	end := ends[k.topic.marks.name][0]
	if n := len(ends[k.topic.name]); n > k.topic.partitions {
		return nil, fmt.Errorf("view %s: topic %s has %d partitions, and had %d: it is opened anew", k.view.Name,
			k.topic.name, n, k.topic.partitions)
	}
	starts, err := k.sink.starts(ctx, k.topic.name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lostBelow(k.topic.name, ends[k.topic.name], k.mark.Offsets),
		lostAbove(k.topic.name, starts, k.mark.Starts),
		lostBelow(k.topic.marks.name, ends[k.topic.marks.name], []int64{k.marksRead - 1})); err != nil {
		return nil, err
	}
	if end == k.marksRead {
		return &k.mark.Standing, nil
	}
	marks, read, _, err := k.sink.readMarks(ctx, k.topic, k.marksRead)
	if err != nil {
		return nil, err
	}
	k.marksRead = read
	if err := k.alone(marks); err != nil { // it was opened at the same time
		return nil, err
	}
	m, changed := marks[place{k.source, k.view.Name}]
	switch {
	case !changed:
		return &k.mark.Standing, nil
	case m.err != nil:
		return nil, replicator.OfView(m.err, k.view.Name)
	case m.mark == nil || m.mark.Fingerprint != k.view.Fingerprint:
		return nil, nil
	}
	return &m.mark.Standing, nil
}

// standing is what the keeper marked last.
func (k *keeper) standing() replicator.Standing {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark.Standing
}

// raise writes a mark, unless that says what stands there.
func (k *keeper) raise(ctx context.Context, at replicator.Standing) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if k.looks {
		return fmt.Errorf("view %s is only looked at: it can't be marked", k.view.Name)
	}
	if sameStanding(at, k.mark.Standing) {
		return nil
	}
	return k.writeMark(ctx, at)
}
