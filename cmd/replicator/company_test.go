package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// Two programs with stores of their own keep the same views: both say so, in the log and in status, and fail nothing.
// (TestASecondReplicatorOfTheSameViewsIsSeenByBoth of package pipeline has the time, and the end.)
func TestTwoProgramsThatKeepTheSameViewsSaySo(t *testing.T) {
	t.Parallel()
	first := newLab(t, servertest.MySQL(t))
	first.program = built
	first.configure(cellViews)
	second := first.beside()
	second.configure(cellViews)
	programs := map[*lab]*process{first: first.running(), second: second.running()}
	stop := first.writes()
	for l, p := range programs {
		eventually(t, func() error {
			text := l.must("status")
			return as(strings.Contains(text, "index_users_email, ") && strings.Contains(text, "another replicator"),
				"status of both:\n"+text)
		})
		// The one that began first may have to fill again, as the other registered while it did.
		eventually(t, func() error {
			status := l.must("status", "users")
			return as(strings.Contains(status, "running") && strings.Contains(status, sharedText), "status of a view:\n"+status)
		})
		if log := p.Log(); !strings.Contains(log, "another replicator also maintains these views") {
			t.Errorf("it is not logged:\n%s", log)
		}
	}
	stop()
	first.caughtUp()
	second.caughtUp()
	for _, p := range programs {
		p.stop()
	}
}
