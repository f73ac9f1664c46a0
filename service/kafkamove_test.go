package service

import (
	"errors"
	"regexp"
	"testing"

	"replicator"
)

// paused returns how many of a member's own rows are paused.
func paused(t *testing.T, m *member) (n int) {
	t.Helper()
	all, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.State == replicator.StatePaused {
			n++
		}
	}
	return n
}

// A view that is paused at a member stays paused in partitions that the member gets later.
func TestAPauseAtAMemberOutlivesARebalance(t *testing.T) {
	l := newTopicLab(t)
	a := l.member()
	l.waits(a, l.publish(many("a ")))
	if err := a.Pause(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	b := l.member()
	eventually(t, "the other has half of the partitions", func() bool {
		own, others, nobodys := has(t, b)
		return own == 2 && others == 2 && nobodys == 0
	})
	if n := paused(t, a); n != 2 {
		t.Errorf("%d of 2 partitions are paused", n)
	}
	b.end()
	eventually(t, "those that came back are paused, too", func() bool { return paused(t, a) == topicPartitions })
	if err := a.Resume(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	l.waits(a, l.publish(many("b ")))
	l.equal("after the view was resumed")
}

var timeOfToken = regexp.MustCompile(`"time":\d+`)

// A member's store has an old position of a partition, from when the member last kept it. Another member has applied
// more since then, and the sink's mark shows it.
func TestAPartitionThatComesBackToAnOldStoreGoesOnAtTheSinksMark(t *testing.T) {
	l := newTopicLab(t)
	setup := l.setup(nil)
	first := l.memberBy(setup)
	l.waits(first, l.publish(many("a ")))
	first.end()
	other := l.member()
	l.waits(other, l.publish(many("b ")))
	other.end()
	store, err := openStore(t.Context(), setup.Config)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := store.Checkpoints(t.Context())
	if err == nil && len(saved) != topicPartitions {
		t.Fatalf("saved are %+v", saved)
	}
	for i := range saved { // pretend that the member last read it in 1970
		saved[i].Position.Token = timeOfToken.ReplaceAllString(saved[i].Position.Token, `"time":1`)
		saved[i].Read = replicator.Position{}
	}
	if err = errors.Join(err, store.Save(t.Context(), saved), store.Close()); err != nil {
		t.Fatal(err)
	}
	l.waits(l.memberBy(setup), l.publish(many("c ")))
	l.equal("with the old store")
}
