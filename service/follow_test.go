package service

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
)

// A view that can't be rebuilt is said when the others of the command are done, not before.
func TestARebuildIsFollowedToTheEndOfTheViewsThatAreWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		status := func(context.Context) ([]replicator.ViewStatus, error) {
			a := replicator.ViewStatus{View: "a", State: replicator.StateRebuilding}
			if time.Since(began) > time.Minute {
				a.State = replicator.StateRunning
			}
			return []replicator.ViewStatus{a, {View: "b", State: replicator.StateRebuilding, Error: "no right"}}, nil
		}
		err := follow(t.Context(), silent{}, []string{"a", "b"}, status)
		if err == nil || !strings.Contains(err.Error(), "view b: no right") || time.Since(began) < time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A rebuild of a view that was paused meanwhile is not done: it goes on when the view is resumed.
func TestARebuildThatIsFollowedIsNotDoneWhileItsViewIsPaused(t *testing.T) {
	states := []string{
		replicator.StateRebuilding, replicator.StatePaused, replicator.StateRebuilding, replicator.StateRunning,
	}
	status := func(context.Context) ([]replicator.ViewStatus, error) {
		now := states[0]
		states = states[1:]
		return []replicator.ViewStatus{{View: "users", State: now}, {View: "others", State: replicator.StateRebuilding}}, nil
	}
	if err := follow(t.Context(), silent{}, []string{"users"}, status); err != nil || len(states) > 0 {
		t.Errorf("it ended with %v left, error %v", states, err)
	}
}

// silent shows nothing.
type silent struct{}

func (silent) Progress(string, int64, float64) {}
func (silent) Say(string)                      {}
