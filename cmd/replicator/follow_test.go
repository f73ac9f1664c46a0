package main

import (
	"context"
	"io"
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
		err := followRebuild(t.Context(), io.Discard, []string{"a", "b"}, status)
		if err == nil || !strings.Contains(err.Error(), "view b: no right") || time.Since(began) < time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
