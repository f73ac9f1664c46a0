package pipeline

import (
	"errors"
	"testing"
	"time"

	"replicator"
)

// Each case lists the errors that ended consecutive sessions, and what must happen after the last of them.
func TestViewsPartForErrorsOfTheirOwnAlone(t *testing.T) {
	views := []*replicator.View{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	down := errors.New("the disk is full")
	ofA := replicator.OfView(down, "a")
	fatalOfA, fatalOfB := replicator.OfView(replicator.Fatal(down), "a"), replicator.OfView(replicator.Fatal(down), "b")
	short, long := time.Second, 2*time.Minute
	type failed struct {
		err    error
		lasted time.Duration
	}
	for name, c := range map[string]struct {
		sessions []failed
		state    string
		parts    int
	}{
		"an error of all": {[]failed{{down, short}, {down, short}, {down, short}},
			replicator.StateRetrying, 0},
		"a fatal error of all":     {[]failed{{replicator.Fatal(down), short}}, replicator.StateFailed, 0},
		"once of one":              {[]failed{{ofA, short}}, replicator.StateRetrying, 0},
		"twice of one":             {[]failed{{ofA, short}, {ofA, short}}, replicator.StateRetrying, 2},
		"twice of one, long apart": {[]failed{{ofA, short}, {ofA, long}}, replicator.StateRetrying, 0},
		"twice of one, of all in between": {[]failed{{ofA, short}, {down, short}, {ofA, short}},
			replicator.StateRetrying, 0},
		"a fatal error of one": {[]failed{{fatalOfA, short}}, replicator.StateRetrying, 2},
		"fatal errors of two": {[]failed{{errors.Join(fatalOfA, fatalOfB), short}},
			replicator.StateRetrying, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var retries retries
			var next retry
			for _, s := range c.sessions {
				next = retries.after(views, s.err, ended{lasted: s.lasted})
			}
			if next.state != c.state || len(next.groups) != c.parts {
				t.Errorf("it is %s, in %d parts, want %s, %d", next.state, len(next.groups), c.state, c.parts)
			}
			if fatal := replicator.IsFatal(c.sessions[len(c.sessions)-1].err); fatal != (next.delay == time.Second) {
				t.Errorf("it is tried again after %s", next.delay)
			}
		})
	}
}

// After a fatal error, the first attempts come soon, for an operator who fixes it at once. If the error stays, there
// are two attempts a minute, each logged, even if each session applies something before it fails.
func TestFatalErrorsAreTriedAgainSoonThenEveryHalfMinute(t *testing.T) {
	views := []*replicator.View{{Name: "a"}}
	fatal := replicator.Fatal(errors.New("the table is missing"))
	var retries retries
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		if got := retries.after(views, fatal, ended{lasted: time.Second, well: true}); got.delay != want*time.Second {
			t.Errorf("try %d follows after %s, want %d s", i, got.delay, want)
		}
	}
	taken := replicator.Fatal(replicator.ErrTakenOver)
	if got := retries.after(views, taken, ended{lasted: time.Hour, well: true}); got.delay != 30*time.Second {
		t.Errorf("after another process took the view over, the next session follows after %s", got.delay)
	}
	if got := retries.after(views, fatal, ended{lasted: time.Hour, well: true}); got.delay != time.Second {
		t.Errorf("after a session of an hour the next one follows after %s", got.delay)
	}
}

func TestPausesBeginAnewAfterASessionThatWentWell(t *testing.T) {
	var b backoff
	failing := ended{lasted: time.Second}
	for range 12 {
		b.next(failing)
	}
	if d := b.next(failing); d < 15*time.Second || d > 30*time.Second {
		t.Errorf("after a long outage the pause is %s", d)
	}
	if d := b.next(ended{lasted: 2 * time.Second, well: true}); d > time.Second {
		t.Errorf("after a session that went well it is %s", d)
	}
	if d := b.next(failing); d > 2*time.Second {
		t.Errorf("then it is %s", d)
	}
	if d := b.next(ended{lasted: time.Hour, well: true}); d > 100*time.Millisecond {
		t.Errorf("after a long session it is %s", d)
	}
}
