package kafka

import (
	"bytes"
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

var _ replicator.Relinquisher = (*Target)(nil)

// Relinquish implements replicator.Relinquisher. It deletes the cells of tables and columns that feed the view no
// longer. They can't be re-read, because the source may no longer read their table.
func (t *Target) Relinquish(ctx context.Context) error {
	for _, k := range t.keepers {
		if err := k.relinquish(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) relinquish(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for after := []byte(nil); ; {
		records, last, err := k.unfed(after)
		if err == nil && len(records) > 0 {
			err = k.write(ctx, records)
		}
		if err != nil || last == nil {
			return err
		}
		after = last
	}
}

// takenBack is the maximum number of cells that Relinquish deletes in one transaction.
const takenBack = 1000

// unfed returns records that delete former cells: an earlier definition of the view left them in the topic, and they
// don't feed the view now. It examines a page of the cells whose keys come after `after`, and also returns the page's
// last key, or nil at the end. A record that deletes a cell looks like a re-read that found no row. Its log position is
// that of the cell's previous record, so every later change of the cell is newer.
func (k *keeper) unfed(after []byte) (records []*kgo.Record, last []byte, err error) {
	passed := 0
	var wrong error
	err = k.table.Walk(after, func(key []byte, e changelog.Entry) bool {
		if k.forgotten(e) && (e.Shown || e.Dead) {
			var cell replicator.Cell
			if cell, wrong = changelog.CellOf(key); wrong != nil {
				return false
			}
			if !k.view.Feeds(cell) {
				left := e.State
				left.AsOf = left.Order
				r := changelog.Encode(&changelog.Record{Cell: cell, State: left, Source: k.source})
				r.Topic, r.Partition = k.topic.name, e.Partition
				records = append(records, r)
			}
		}
		if passed++; len(records) >= takenBack || passed >= visited {
			last = bytes.Clone(key)
			return false
		}
		return true
	})
	return records, last, errors.Join(err, wrong)
}

// former returns the highest log position of a source in the marks of a topic's first partition; zero if there is none.
// These marks remain when a view is forgotten, or when the marks topic is lost. A new mark needs a higher position than
// the returned one, which readers of the topic may have reached.
func (s *Sink) former(ctx context.Context, t *topic, source string) (last replicator.Position, err error) {
	ends, err := s.ends(ctx, t.name)
	if err != nil {
		return last, err
	}
	_, err = changelog.ReadPast(ctx, s.options, t.name, 0, 0, ends[t.name][0], func(records []*kgo.Record) error {
		for _, r := range records {
			if !changelog.IsMark(r) {
				continue
			}
			_, of, m, err := changelog.DecodeMark(r)
			if err == nil && m != nil && of == source && m.Standing.Position.Order > last.Order {
				last = m.Standing.Position
			}
		}
		return nil
	})
	return last, err
}
