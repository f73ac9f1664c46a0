package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/server"
)

// many returns users whose names begin with a text.
func many(text string) map[int64]string {
	names := map[int64]string{}
	for id := range int64(40) {
		names[id] = fmt.Sprint(text, id)
	}
	return names
}

// waiting starts a wait for a fence at a member and returns a channel with the result.
func waiting(t *testing.T, m *member, fence string) <-chan error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- m.Wait(ctx, server.Fence{At: fence}, nil) }()
	return done
}

// goesOn fails the test if a wait ends too early.
func goesOn(t *testing.T, done <-chan error, what string) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("%s: the wait ended: %v", what, err)
	case <-time.After(2 * time.Second):
	}
}

// ends fails the test unless a wait succeeds.
func ends(t *testing.T, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The group still has offsets for a sink that is empty now.
func TestAFlushedSinkHasNotCaughtUpWhateverTheGroupRemembers(t *testing.T) {
	l := newTopicLab(t)
	fence := l.publish(many("a "))
	m := l.member()
	l.waits(m, fence)
	m.end()
	for _, ask := range []func(m *member){
		func(m *member) { ends(t, waiting(t, m, fence)) },
		func(m *member) {
			if err := m.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if err := l.redis.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		m = l.member() // with its own, empty state directory
		ask(m)
		l.equal("after the sink was flushed")
		m.end()
	}
}

// A publisher writes a mark without a position when it opens its view.
func TestAWaitGoesOnWhileThePublisherHasMarkedNoPlaceYet(t *testing.T) {
	l := newTopicLab(t)
	m := l.member()
	unmarked := waiting(t, m, "binlog.000001:101")
	l.write(l.marks(replicator.Position{}))
	l.waits(m, fmt.Sprintf("%s/0:1", l.topic)) // the mark was read
	goesOn(t, unmarked, "with a mark of no place")
	l.publish(map[int64]string{1: "ada"})
	ends(t, unmarked)
}

func TestAWaitHoldsForGTIDSetsOfAnyLengthAtEveryMember(t *testing.T) {
	l := newTopicLab(t)
	a, b := l.member(), l.member()
	l.waits(a, l.publish(map[int64]string{1: "ada"}))
	eventually(t, "both have partitions", func() bool {
		own, _, nobodys := has(t, a)
		return own == topicPartitions/2 && nobodys == 0
	})
	var set []string
	for n := range 200 {
		set = append(set, fmt.Sprintf("%08d-0000-0000-0000-000000000000:1-9", n))
	}
	l.order++
	l.write(l.marks(replicator.Position{Order: l.order,
		Token: fmt.Sprintf(`{"file":"binlog.000001","pos":%d,"gtid":"%s"}`, l.order, strings.Join(set, ","))}))
	for _, m := range []*member{a, b} {
		ends(t, waiting(t, m, "00000199-0000-0000-0000-000000000000:7"))
	}
}

// FILE:POS is a position of the server that the publisher reads now. A file of the previous server proves nothing about
// it.
func TestAFileOfTheServerBeforeIncludesNothingOfTheNextOne(t *testing.T) {
	l := newTopicLab(t)
	m := l.member()
	at := func(epoch, file int64) []byte {
		return fmt.Appendf(nil, `{"file":"binlog.%06d","pos":50,"epoch":%d}`, file, epoch)
	}
	before := l.marks(replicator.Position{Order: 42<<34 | 50, Token: string(at(0, 42))})
	after := l.marks(replicator.Position{Order: 1<<54 | 2<<34 | 50, Token: string(at(1, 2))})
	l.write(before)
	ends(t, waiting(t, m, "binlog.000042:50"))
	l.write(after[topicPartitions:]) // only to the topic of marks
	eventually(t, "the end of the transaction is there", func() bool {
		p, err := m.cluster.Publisher(t.Context(), l.topic)
		return err == nil && p.At.Order > 1<<54
	})
	next := waiting(t, m, "binlog.000002:50")
	goesOn(t, next, "with marks of the server before")
	l.write(after[:topicPartitions])
	ends(t, next)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := m.Wait(ctx, server.Fence{At: "binlog.000042:50"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a place of the server before: %v", err)
	}
}
