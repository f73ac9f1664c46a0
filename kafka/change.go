package kafka

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// changes decodes a record. A put's record also holds the log position (AsOf) of the last re-read before it, because
// compaction may have removed the re-read's own record. Then changes returns two changes: the re-read and the put.
func (r *Reader) changes(d *changelog.Decoder, in *kgo.Record) ([]*replicator.Change, error) {
	record, err := d.Decode(in)
	if errors.Is(err, changelog.ErrNotOurs) {
		return r.foreign(in, err), nil
	}
	if err != nil {
		return nil, err
	}
	table, read := r.tables[record.Cell.Table]
	if !read {
		return nil, nil
	}
	row, state := record.Row, record.State
	switch {
	case record.Dead != "":
		row = &replicator.Row{Cell: record.Cell, Version: state.Version, Order: state.Order, Err: errors.New(record.Dead)}
	case row != nil && row.Body != nil && record.Codec != table.Codec:
		return nil, replicator.OfTable(table.Name, replicator.Fatal(fmt.Errorf("table %s: the publisher encodes "+
			"bodies as %s, but the configuration says %s. Set codec = %q", table.Name, record.Codec,
			orNone(table.Codec), record.Codec)))
	}
	c := replicator.Change{Kind: replicator.Update, Cell: record.Cell, Version: state.Version,
		Order: state.Order, Row: row}
	if row == nil {
		c.Kind = replicator.Delete
	} else {
		row.Place = in.Offset
		c.Time = row.Time
	}
	if record.Reset() {
		c.AsOf = state.AsOf
		return []*replicator.Change{&c}, nil
	}
	if state.AsOf == 0 {
		return []*replicator.Change{&c}, nil
	}
	look := c
	look.AsOf = state.AsOf
	return []*replicator.Change{&look, &c}, nil
}

func orNone(codec string) string {
	if codec == "" {
		return "that there are none"
	}
	return codec
}

// foreign handles a record that another program wrote into the topic. It returns changes whose rows have an error, so
// that every view gets a dead letter with the record's key. Each table has one such change for each value of the column
// role that views name, and one for no value.
func (r *Reader) foreign(in *kgo.Record, why error) (all []*replicator.Change) {
	key, err := replicator.MakeKey(in.Key)
	if err != nil {
		return nil // can't happen: any bytes make a key
	}
	for _, t := range r.tables {
		for _, column := range append(slices.Clip(t.Values), "") {
			cell := replicator.Cell{Table: t.Name, Key: key, Column: column}
			row := &replicator.Row{Cell: cell, Version: in.Offset + 1, Order: in.Offset + 1, Time: in.Timestamp,
				Place: in.Offset, Err: fmt.Errorf("record %s: %w", r.Locate(in.Offset), why)}
			all = append(all, &replicator.Change{Kind: replicator.Insert, Cell: cell, Version: row.Version, Order: row.Order,
				Time: row.Time, Row: row})
		}
	}
	return all
}
