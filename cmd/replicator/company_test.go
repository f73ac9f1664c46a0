package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// Two programs with different stores keep the same views. Both say so in the log and in status, and no view fails.
// (TestASecondReplicatorOfTheSameViewsIsSeenByBoth in package pipeline tests how long that takes and how it ends.)
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
		// The second program may have registered during the first one's fill. Then the first one must fill again.
		eventually(t, func() error {
			status := l.must("status", "users")
			runs := strings.Contains(status, "running") && strings.Contains(status, sharedText)
			return as(runs, "status of a view:\n"+status)
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
