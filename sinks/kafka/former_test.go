package kafka

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// The view no longer reads one of its tables. Outdated must not list that table's cells, because they can't be re-read,
// and Relinquish must delete them. For every reader, the delete must replace the cell's previous record.
func TestCellsThatFeedAViewNoMoreAreWrittenAsGone(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	v.From = append(v.From, replicator.Feed{Table: "other"})
	c.topic(settingsOf(v).Topic, 1)
	_, target := c.open(t, v)
	other := func(op replicator.Op) replicator.Op {
		op.Cell.Table = "other"
		return op
	}
	look, dead := other(put(t, 3, 7, 0)), other(put(t, 4, 7, 30))
	look.AsOf = 20
	dead.Values[0] = replicator.Value{Err: errors.New("it can't be decoded")}
	apply(t, target, put(t, 1, 5, 10), other(put(t, 2, 6, 10)), look, dead)

	v = &replicator.View{Name: v.Name, Kind: v.Kind, From: v.From[:1], Settings: v.Settings, Fingerprint: "2"}
	s, target := c.open(t, v)
	for _, want := range []int{3, 0} {
		cells, _, err := target.Outdated(t.Context(), 100, "", 10)
		if err != nil || !slices.Equal(cells, []replicator.Cell{cellOf(t, 1)}) {
			t.Errorf("outdated is %v: %v", cells, err)
		}
		before := len(c.recordsOf(t, s, v))
		if err := target.(replicator.Relinquisher).Relinquish(t.Context()); err != nil {
			t.Fatal(err)
		}
		written := c.recordsOf(t, s, v)[before:]
		for _, r := range written {
			states := map[replicator.Cell]replicator.State{
				other(put(t, 2, 0, 0)).Cell: {Version: 6, Order: 10},
				look.Cell:                   {Version: 7, Order: 20, AsOf: 20},
				dead.Cell:                   {Version: 7, Order: 30},
			}
			known, is := states[r.Cell]
			op := replicator.Op{Cell: r.Cell, Version: r.State.Version, Order: r.State.Order}
			if r.Reset() {
				op.Order, op.AsOf = 0, r.State.AsOf
			}
			if _, applies := known.Next(op); !is || !applies || r.Row != nil || r.Dead != "" {
				t.Errorf("it was written: %+v", r)
			}
		}
		if len(written) != want {
			t.Errorf("%d records were written, and not %d", len(written), want)
		}
	}
	if got := c.reader(settingsOf(v).Topic).versions(t); len(got) != 1 || got[`{"table":"fav","key":[1]}`] != 5 {
		t.Errorf("the topic ends with %v", got)
	}
}

// recordsOf returns the cells' records in a view's topic, which has one partition.
func (c *cluster) recordsOf(t testing.TB, s *Sink, v *replicator.View) (all []*changelog.Record) {
	t.Helper()
	topic := settingsOf(v).Topic
	ends, err := s.ends(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	err = changelog.Read(t.Context(), s.options, topic, nil, ends[topic], func(records []*kgo.Record) error {
		for _, r := range records {
			if changelog.IsMark(r) {
				continue
			}
			record, err := changelog.Decode(r)
			if err != nil {
				return err
			}
			all = append(all, record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
