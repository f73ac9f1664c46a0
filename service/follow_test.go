package service

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
)

// One view fails to rebuild. The command reports this only after the other views are rebuilt.
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

// A view is paused during its rebuild. The command waits, because the rebuild continues when the view is resumed.
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

// silent is a Display that shows nothing.
type silent struct{}

func (silent) Progress(string, int64, float64) {}
func (silent) Say(string)                      {}
