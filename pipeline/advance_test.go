package pipeline

import (
	"testing"
	"time"

	"replicator"
)

// provingReader learns the proof of its start position from the log's first events.
type provingReader struct {
	freeReader
	reach *reach
}

func (r provingReader) Position(order int64) replicator.Position {
	if r.reach.heard.Load() {
		return replicator.Position{Token: "start and its proof", Order: order}
	}
	return replicator.Position{Token: "start", Order: order}
}

// A fill may reach a new log file, and save the position, before the log's first events arrive. The proof that these
// bring must be saved, too, even if the log then stays idle.
func TestTheProofOfAPositionIsAskedForOnceTheLogIsHeard(t *testing.T) {
	l := freeLane()
	reader := provingReader{reach: l.reach}
	views := viewSet{{Name: "v", From: []replicator.Feed{{Table: "t"}}}}
	start := reader.Position(0)
	s := &saver{
		group: &group{
			shared: &shared{cfg: &Config{Interval: time.Hour}, shown: newShown(nil)},
			views:  views, notes: newNotes(nil),
			progress: newProgress(views, []replicator.Checkpoint{{View: "v", Standing: replicator.Standing{Position: start}}}),
			meter:    newMeter(1, time.Second),
		},
		reader: reader, reach: l.reach, marked: replicator.Standing{Position: start}, savedAt: time.Now(),
		lanes: &lanes{reach: l.reach, shares: []*lane{l}, spellings: l, referring: l},
	}
	advance := func(u urgency) string {
		t.Helper()
		if err := s.advance(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		return s.progress.current().Position.Token
	}
	if got := advance(saveNow); got != "start" {
		t.Fatalf("before the log is heard, the position is %q", got)
	}
	l.reach.commit(0, time.Time{})
	if got := advance(saveNothing); got != "start and its proof" {
		t.Errorf("once the log is heard, the position is %q", got)
	}
}
