package service

import (
	"testing"

	"replicator"
)

// The process that ran a rebuild has ended. Its checkpoints show whether the rebuild was done.
func TestWhatWasSavedSaysWhetherAViewWasRebuilt(t *testing.T) {
	filled := func(view string, epoch int64) replicator.Checkpoint {
		return replicator.Checkpoint{View: view, Standing: replicator.Standing{Epoch: epoch}}
	}
	filling := func(view string, epoch int64) replicator.Checkpoint {
		c := filled(view, epoch)
		c.Fill = map[string]replicator.Progress{}
		return c
	}
	shadow := "a" + replicator.ShadowSuffix
	type saved = []replicator.Checkpoint
	for name, c := range map[string]struct {
		before, after saved
		want          bool
	}{
		"swapped in":                         {saved{filled("a", 1)}, saved{filled("a", 2)}, true},
		"swapped in, and another one is not": {saved{filled("a", 1)}, saved{filled("a", 2), filling("b", 1)}, true},
		"the shadow had begun, and is left": {saved{filled("a", 1), filling(shadow, 2)},
			saved{filled("a", 1), filling(shadow, 2)}, false},
		"the shadow is filled, not swapped":  {saved{filled("a", 1)}, saved{filled("a", 1), filled(shadow, 2)}, false},
		"it ended before anything was saved": {saved{filled("a", 1)}, saved{filled("a", 1)}, false},
		"in place, and filled":               {saved{filling("a", 2)}, saved{filled("a", 2)}, true},
		"in place, and not yet":              {saved{filled("a", 1)}, saved{filling("a", 2)}, false},
		"of one source, but not of the other": {saved{}, saved{filled("a", 2),
			{View: "a", Source: "x", Standing: filling("a", 2).Standing}}, false},
	} {
		if got := rebuilt(c.before, c.after, []string{"a"}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
