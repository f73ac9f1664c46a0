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

// Newest implements replicator.Reader. The topic has all changes up to the log position of the publisher's last mark,
// so that position is asOf. A cell whose record has a later position is returned alone, with that position as asOf.
//
// While a publisher fills the topic, a cell without a record may still get one. Such a cell is returned alone, too,
// with the lowest possible position as asOf, so that its record counts as newer.
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
		return nil, 0, fmt.Errorf("%s: the topic's publisher (a sink of type kafka) has not recorded its progress "+
			"yet. Check that it runs", r.source.Name())
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

// lookup collects the newest rows of the wanted cells from a partition's records.
type lookup struct {
	reader  *Reader
	decoder changelog.Decoder
	wanted  map[replicator.Cell]int
	states  []replicator.State
	rows    []*replicator.Row // by the cells' indexes in `wanted`; the last are dropped while size exceeds bytes
	size    int64
	bytes   int64 // limit of the rows' size in bytes; 0: none

	mark    replicator.Position // how far the publisher has read its database
	filling bool
}

// firstPlace is the lowest possible Order in the log of the publisher's database.
const firstPlace = 1

// mayCome reports whether a cell has no record yet, but may still get one, because the publisher is filling the topic.
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
	changes, err := l.reader.changes(&l.decoder, in)
	for _, c := range changes { // a record can hold two changes of its cell: the last one counts
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

// Lacks implements replicator.Changelog. It fails if cells lack a record while the publisher fills the topic, because
// their records may still come.
func (s *Source) Lacks(ctx context.Context, cells []replicator.Cell, versions []int64) ([]replicator.Cell, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	told := map[replicator.Cell]int64{}
	for _, c := range cells {
		told[c] = untold
	}
	filling := false
	var d changelog.Decoder
	err := s.each(ctx, func(in *kgo.Record) error {
		if changelog.IsMark(in) {
			_, _, mark, err := changelog.DecodeMark(in)
			if err == nil && mark != nil {
				filling = mark.Standing.Filling()
			}
			return err
		}
		record, err := d.Decode(in)
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
		return nil, fmt.Errorf("%s: the publisher is still filling the topic, so missing records may still come. "+
			"The topic is read again", s.Name())
	}
	return lacking, nil
}

// Remembers implements replicator.Changelog. Kafka keeps a tombstone for at least delete.retention.ms.
func (s *Source) Remembers(ctx context.Context, since time.Time) (bool, error) {
	topic, err := s.cluster.Topic(ctx, s.cfg.Topic)
	if err != nil {
		return false, err
	}
	// Round(0) drops the monotonic clock reading, which stands still while the machine is suspended.
	return time.Since(since.Round(0)) < topic.Tombstones, nil
}

// untold stands for the version of a cell that has no record. It is lower than every valid version.
const untold = replicator.NoVersion - 1

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
