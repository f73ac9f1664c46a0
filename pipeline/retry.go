package pipeline

import (
	"errors"
	"math/rand/v2"
	"time"

	"replicator"
)

// retries decide what follows on the end of a session. A run's goroutine alone uses them.
type retries struct {
	wait    backoff
	mending mending
	named   int // sessions in a row that an error of some of the views ended
}

// retry is what follows.
type retry struct {
	delay  time.Duration
	state  string
	groups [][]*replicator.View // of the views, which are to run by themselves; nil: they stay together
}

// mayPass is how many sessions in a row an error of some views may end that is not Fatal, until they part from the
// others. What befalls all of them (a full disk) parts nobody.
const mayPass = 2

// ended is a session that an error ended.
type ended struct {
	lasted time.Duration
	well   bool // it did what it was there for, until then
}

// after is what follows on an error that ended a session of views.
func (t *retries) after(views []*replicator.View, err error, session ended) retry {
	next := retry{delay: t.pause(err, session), state: replicator.StateRetrying}
	fatal := replicator.IsFatal(err)
	groups, others := replicator.Troubled(views, err)
	switch {
	case groups == nil:
		t.named = 0
	case session.lasted > time.Minute:
		t.named = 1
	default:
		t.named++
	}
	if fatal && t.named == 0 { // else not all of the views have failed
		next.state = replicator.StateFailed
	}
	if t.named > 0 && (fatal || t.named >= mayPass && len(others) > 0) {
		next.groups = groups
		if len(others) > 0 {
			next.groups = append(next.groups, others)
		}
	}
	return next
}

// pause is how long it takes until what ended with an error is tried again.
func (t *retries) pause(err error, session ended) time.Duration {
	switch {
	case errors.Is(err, replicator.ErrTakenOver):
		return longestPause
	case replicator.IsFatal(err):
		return t.mending.next(session)
	}
	return t.wait.next(session)
}

// longestPause is the longest time until what ended with an error is tried again.
const longestPause = 30 * time.Second

// backoff grows from 100 ms to 30 s, with jitter so that pipelines don't knock together. After a session that went well
// it begins anew, at 1 s if that was a short one: what fails now may be something else, and may be over soon, or come
// again and again.
type backoff struct{ last time.Duration }

func (b *backoff) next(session ended) time.Duration {
	switch {
	case session.lasted > time.Minute:
		b.last = 0
	case session.well:
		b.last = min(b.last, time.Second/2)
	}
	b.last = min(max(2*b.last, 100*time.Millisecond), longestPause)
	return b.last/2 + rand.N(b.last/2)
}

// mending says how long it takes until that is tried again which a person has to mend: from 1 s, for a person who is at
// it, to 30 s. It begins again after a session of a minute, however well a shorter one went: an error that stays is
// logged with every try.
type mending struct{ last time.Duration }

func (m *mending) next(session ended) time.Duration {
	if session.lasted > time.Minute {
		m.last = 0
	}
	m.last = min(max(2*m.last, time.Second), longestPause)
	return m.last
}
