package pipeline

import (
	"math/rand/v2"
	"time"

	"replicator"
)

// retries decide what follows on the end of a session. A run's goroutine alone uses them.
type retries struct {
	wait  backoff
	named int // sessions in a row that an error of some of the views ended
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
	next := retry{delay: t.wait.next(session), state: replicator.StateRetrying}
	fatal := replicator.IsFatal(err)
	if fatal {
		next.delay = fatalPause
	}
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
	b.last = min(max(2*b.last, 100*time.Millisecond), 30*time.Second)
	return b.last/2 + rand.N(b.last/2)
}
