package pipeline

import (
	"errors"
	"math/rand/v2"
	"time"

	"replicator"
)

// retries decides how to continue after an error that ended a session or prevented the start. It belongs to one
// goroutine.
type retries struct {
	wait      backoff
	fatalWait fatalBackoff
	named     int // number of sessions in a row that an error of certain views ended (OfView, OfTable)
}

type retry struct {
	delay  time.Duration
	state  string
	groups [][]*replicator.View // groups of views that are to run separately; nil: all views stay together
}

// mayPass is how many sessions in a row must fail with errors of single views before these views run separately from
// the others. After a Fatal error, they do so at once.
const mayPass = 2

type ended struct {
	lasted time.Duration
	well   bool // the session worked as intended until the error
}

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
	if fatal && t.named == 0 { // if only some views failed, they are separated from the others instead
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

func (t *retries) pause(err error, session ended) time.Duration {
	switch {
	case errors.Is(err, replicator.ErrTakenOver):
		return longestPause
	case replicator.IsFatal(err):
		return t.fatalWait.next(session)
	}
	return t.wait.next(session)
}

const longestPause = 30 * time.Second

// backoff is the pause after an error that may pass: 100 ms to 30 s, with jitter so that pipelines don't retry in step.
// After a session of more than a minute, it is 100 ms again. After a shorter session that worked, it is at most 1 s.
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

// fatalBackoff is the pause after a Fatal error. It grows from 1 s to 30 s, and is 1 s again after a session of more
// than a minute.
type fatalBackoff struct{ last time.Duration }

func (b *fatalBackoff) next(session ended) time.Duration {
	if session.lasted > time.Minute {
		b.last = 0
	}
	b.last = min(max(2*b.last, time.Second), longestPause)
	return b.last
}
