package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// Newest implements replicator.Reader. A record says what its cell is as of its own place; that everything up to a
// later place is included only a publisher's mark tells. So cells are looked at together whose records stand before the
// last mark, and else by themselves, each as of its record's place. While a publisher fills the topic, what there is no
// record of may be yet to come, as of the place at which its scan read it, and a mark may stand behind that by now. Such
// a cell is told as of the first place of all: nothing that comes is older, and a view that knows the cell already takes
// no notice.
func (r *Reader) Newest(ctx context.Context, cells []replicator.Cell, bytes int64) ([]*replicator.Row, int64, error) {
	found := &lookup{reader: r, wanted: map[replicator.Cell]int{}, states: make([]replicator.State, len(cells)),
		rows: make([]*replicator.Row, len(cells)), bytes: bytes}
	for i, c := range cells {
		found.wanted[c] = i
	}
	if err := r.source.each(ctx, found.enter); err != nil {
		return nil, 0, err
	}
	low := found.mark.Order
	if low == 0 {
		return nil, 0, fmt.Errorf("%s: the publisher has not marked yet how far it has come", r.source.Name())
	}
	alone := func(i int) bool { return found.states[i].Order > low || found.mayCome(i) }
	switch {
	case found.mayCome(0):
		return found.rows[:1], firstPlace, nil
	case alone(0):
		return found.rows[:1], found.states[0].Order, nil
	}
	n := 1
	for n < len(found.rows) && !alone(n) {
		n++
	}
	return found.rows[:n], low, nil
}

// lookup finds what the partition says of cells.
type lookup struct {
	reader *Reader
	wanted map[replicator.Cell]int
	states []replicator.State
	rows   []*replicator.Row // of the first cells, as many as there is room for
	size   int64
	bytes  int64 // of rows that there is room for; 0: of all

	mark    replicator.Position // the publisher's last
	filling bool                // whether it fills the topic
}

// firstPlace is at or before every Order of an origin's.
const firstPlace = 1

// mayCome reports whether nothing is known of a cell only because the publisher has not come to it yet.
func (l *lookup) mayCome(i int) bool {
	return l.states[i] == replicator.State{} && l.filling
}

func (l *lookup) enter(in *kgo.Record) error {
	if changelog.IsMark(in) {
		_, _, mark, err := changelog.DecodeMark(in)
		if err == nil && mark != nil {
			l.mark, l.filling = mark.Standing.Position, mark.Standing.Filling()
		}
		return err
	}
	changes, err := l.reader.changes(in)
	for _, c := range changes { // the last of a cell is what it is
		l.found(c)
	}
	return err
}

func (l *lookup) found(c *replicator.Change) {
	i, wanted := l.wanted[c.Cell]
	if !wanted || i >= len(l.rows) {
		return
	}
	l.states[i] = replicator.State{Version: c.Version, Order: c.Order, AsOf: c.AsOf}
	if old := l.rows[i]; old != nil {
		l.size -= old.Size()
	}
	if l.rows[i] = c.Row; c.Row != nil {
		l.size += c.Row.Size()
	}
	for n := len(l.rows); l.bytes > 0 && l.size > l.bytes && n > 1; n = len(l.rows) {
		if last := l.rows[n-1]; last != nil {
			l.size -= last.Size()
		}
		l.rows = l.rows[:n-1]
	}
}

// Lacks implements replicator.Changelog. While a publisher fills the topic, rows are yet to come that the origin has:
// it is not known then what there is no record of.
func (s *Source) Lacks(ctx context.Context, cells []replicator.Cell, versions []int64) ([]replicator.Cell, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	told := map[replicator.Cell]int64{}
	for _, c := range cells {
		told[c] = untold
	}
	filling := false
	err := s.each(ctx, func(in *kgo.Record) error {
		if changelog.IsMark(in) {
			_, _, mark, err := changelog.DecodeMark(in)
			if err == nil && mark != nil {
				filling = mark.Standing.Filling()
			}
			return err
		}
		record, err := changelog.Decode(in)
		if errors.Is(err, changelog.ErrNotOurs) {
			return nil
		}
		if err == nil {
			if _, asked := told[record.Cell]; asked {
				told[record.Cell] = record.State.Version
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var lacking []replicator.Cell
	for i, c := range cells {
		if told[c] < versions[i] || told[c] == untold {
			lacking = append(lacking, c)
		}
	}
	if len(lacking) > 0 && filling {
		return nil, fmt.Errorf("%s: the publisher is filling the topic, so what is not in it may be yet to come: "+
			"it is looked at again", s.Name())
	}
	return lacking, nil
}

// Remembers implements replicator.Changelog. Kafka keeps a record that says that a key is gone for at least
// delete.retention.ms.
func (s *Source) Remembers(ctx context.Context, since time.Time) (bool, error) {
	topic, err := s.cluster.Topic(ctx, s.cfg.Topic)
	if err != nil {
		return false, err
	}
	return time.Since(since.Round(0)) < topic.Tombstones, nil // by the clock: a machine may have slept
}

// untold is no version: that of a cell without a record.
const untold = replicator.NoVersion - 1

// each gives do every record of the partition, up to its present end.
func (s *Source) each(ctx context.Context, do func(*kgo.Record) error) error {
	at, err := s.cluster.ends(ctx, s.cfg.Topic, s.cfg.Partition)
	if err != nil || at.first >= at.next {
		return err
	}
	client, err := s.cluster.consume(s.cfg.Topic, s.cfg.Partition, at.first)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetched := client.PollRecords(ctx, mostRecords)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, e := range fetched.Errors() {
			return fmt.Errorf("%s: %w", s.Name(), e.Err)
		}
		for _, record := range fetched.Records() {
			if record.Offset >= at.next {
				return nil
			}
			if !record.Attrs.IsControl() {
				if err := do(record); err != nil {
					return err
				}
			}
			if record.Offset == at.next-1 {
				return nil
			}
		}
	}
}
