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

// found is a view's progress, read from the marks topic. mark is nil if the progress was deleted, and err is set if it
// can't be decoded.
type found struct {
	mark   *changelog.Mark
	err    error
	offset int64
}

// settling is how long allMarks and catchUp wait for open transactions. Kafka acknowledges a commit before the brokers
// write the transaction's end into the partitions, so a new mark may look uncommitted for a moment.
const settling = time.Second

// allMarks reads the progress of every view and source from a topic's marks topic. It also returns the offset at which
// readMarks can continue.
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

// readMarks reads a topic's marks topic from an offset to its end. It also returns the offset at which to continue, and
// the end. It doesn't wait for open transactions: a killed publisher's transaction may stay open until the next
// publisher opens the view, and that publisher reads the marks before it does so.
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

// register reads the view's progress from the marks topic into k.mark. If none is usable there, k.mark becomes a new
// mark without any progress, which is not written yet.
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
		return replicator.OfView(fmt.Errorf("%w. `replicator rebuild %s` fills the view again", m.err, k.view.Name),
			k.view.Name)
	}
	if m.mark != nil && m.mark.Fingerprint == k.view.Fingerprint {
		lost, err := k.sink.lost(ctx, k.topic, m.mark)
		if err != nil {
			return err
		}
		if lost == nil && m.mark.Partitions > k.topic.partitions {
			return replicator.OfView(replicator.Fatal(fmt.Errorf(
				"view %s: topic %s has %d partitions, but had %d before", k.view.Name, k.topic.name,
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

// spread returns the number of partitions that hold cells: as many as the topic had when its first view was created. A
// cell must never move to a partition that was added later, because it would then have two newest records.
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
		return 0, replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: topic %s holds records but no "+
			"mark that says over how many partitions they are spread. Set another topic. The view is then "+
			"filled there",
			k.view.Name, k.topic.name)), k.view.Name)
	}
	return k.topic.partitions, nil
}

// writeMark writes the view's progress in one transaction. First it writes a mark into every partition of the topic,
// after the data that the mark covers. Then it writes a mark into the marks topic, with the offsets of the marks in the
// partitions.
func (k *keeper) writeMark(ctx context.Context, progress replicator.Standing) error {
	next := *k.mark
	next.Standing, next.Time, next.Offsets = progress, time.Now(), nil
	short := next
	short.Topic, short.Forgotten, short.Starts = "", nil, nil
	// also the partitions that were added later: they hold no cells, but their readers wait for marks
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

// stood reads the view's progress from the marks topic; nil if it was deleted. It fails if a topic has lost data.
func (k *keeper) stood(ctx context.Context) (*replicator.Standing, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ends, err := k.sink.ends(ctx, k.topic.name, k.topic.marks.name)
	if err != nil {
		return nil, err
	}
	end := ends[k.topic.marks.name][0]
	if n := len(ends[k.topic.name]); n > k.topic.partitions {
		return nil, fmt.Errorf("view %s: topic %s has %d partitions, but had %d before. The view is opened "+
			"again", k.view.Name,
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
	if err := k.alone(marks); err != nil { // fails if another view or source has marked the topic meanwhile
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

func (k *keeper) standing() replicator.Standing {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark.Standing
}

// saveMark writes the view's progress to the topics, unless it is already there.
func (k *keeper) saveMark(ctx context.Context, progress replicator.Standing) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if k.readOnly {
		return fmt.Errorf("view %s is open read-only, so its mark can't be written", k.view.Name)
	}
	if sameStanding(progress, k.mark.Standing) {
		return nil
	}
	return k.writeMark(ctx, progress)
}
