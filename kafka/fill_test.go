package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// The publisher's scan may have read a row at a position before a mark that is already in the topic. A re-read must not
// say that the row is gone as of that mark, because this answer would count as newer than the row.
func TestALookTakesNothingForGoneThatThePublisherIsYetToFill(t *testing.T) {
	p := publish(t, 1, nil)
	s := p.source(0)
	r, err := s.Open(t.Context(), []replicator.Position{p.oldest(s)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.write(0, put(1, 1, 10, 0, `{"a":1}`), gone(3, 20), filling(30))
	cells := []replicator.Cell{cell(2), cell(1), cell(3), cell(4)}
	for _, c := range []struct {
		from, rows int
		asOf       int64
	}{{0, 1, 1}, {1, 2, 30}, {3, 1, 1}} {
		rows, asOf, err := r.Newest(t.Context(), cells[c.from:], 0)
		if err != nil || asOf != c.asOf || len(rows) != c.rows {
			t.Errorf("from the cell %d on: rows %v as of %d: %v", c.from, rows, asOf, err)
		}
	}
	p.write(0, put(2, 1, 29, 0, `{"a":2}`), mark(40))
	rows, asOf, err := r.Newest(t.Context(), cells, 0)
	if err != nil || asOf != 40 || len(rows) != 4 || rows[0] == nil || rows[3] != nil {
		t.Errorf("once it is filled: rows %v as of %d: %v", rows, asOf, err)
	}
}

// A record has the time at which its row was committed. So a fill that is stopped early may have read only old records.
func TestAFillFromAnOldTopicGoesOnWhereItWasStopped(t *testing.T) {
	p := publish(t, 1, nil)
	var old []*kgo.Record
	for id := range int64(1500) { // more than a reader handles at a time
		r := put(id, 1, 1+id, 0, `{}`)
		r.Timestamp = time.Now().Add(-72 * time.Hour) // delete.retention.ms is 24 hours
		old = append(old, r)
	}
	p.write(0, old...)
	s := p.source(0)
	r, _ := p.read(s, p.oldest(s))
	again, err := s.Open(t.Context(), []replicator.Position{r.Position(1400)})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// Kafka removes the records of deleted cells after delete.retention.ms. A fill that takes longer may have missed some.
func TestATopicRemembersWhatIsGoneForAsLongAsItKeepsTombstones(t *testing.T) {
	p := publish(t, 1, map[string]string{"delete.retention.ms": "3600000"})
	s := p.source(0)
	for ago, want := range map[time.Duration]bool{time.Minute: true, 61 * time.Minute: false} {
		got, err := s.Remembers(t.Context(), time.Now().Add(-ago))
		if err != nil || got != want {
			t.Errorf("since %v: %t, want %t (%v)", ago, got, want, err)
		}
	}
}
