package pipeline

import (
	"slices"
	"testing"

	"replicator"
)

// The source's log must contain a mark that is later than the checkpoint, or that was read farther. The store may be
// older than the sink, for example if the store was restored together with the source.
func TestAMarkThatTellsMoreThanTheCheckpointIsRequired(t *testing.T) {
	at := func(order int64, token string) replicator.Position {
		return replicator.Position{Order: order, Token: token}
	}
	saved := at(5, "p")
	for name, c := range map[string]struct {
		mark     replicator.Position
		unmarked bool
		required bool
	}{
		"the same":                          {mark: saved},
		"earlier":                           {mark: at(4, "o")},
		"later":                             {mark: at(6, "q"), required: true},
		"at the same place, and more read":  {mark: at(5, "p, and read up to q"), required: true},
		"of what is not to be gone on with": {mark: at(6, "q"), unmarked: true},
	} {
		a := &above{run: &run{group: &group{shared: &shared{}}}}
		a.compare(replicator.Checkpoint{View: "v", Standing: replicator.Standing{Position: saved}, Unmarked: c.unmarked},
			&replicator.Mark{View: "v", Standing: replicator.Standing{Position: c.mark}})
		if got := slices.Contains(a.required(), c.mark); got != c.required {
			t.Errorf("%s: the required positions are %v", name, a.required())
		}
	}
}
