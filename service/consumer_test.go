package service

import (
	"testing"

	"replicator"
)

// One view that is behind, or still filled, is what members that wait must know of.
func TestTheGroupIsToldWhatAllViewsOfAPartitionHave(t *testing.T) {
	at := func(order int64) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: "somewhere"}}
	}
	filling := at(9)
	filling.Fill = map[string]replicator.Progress{}
	for what, c := range map[string]struct {
		views   map[string]replicator.Standing
		order   int64
		filling bool
	}{
		"none":                    {nil, 0, false},
		"the one behind":          {map[string]replicator.Standing{"a": at(7), "b": at(5), "c": at(6)}, 5, false},
		"the one that is filled":  {map[string]replicator.Standing{"a": at(9), "b": filling}, 9, true},
		"and another one, behind": {map[string]replicator.Standing{"a": at(5), "b": filling}, 5, true},
	} {
		if got := lowestOf(c.views); got.Position.Order != c.order || got.Filling() != c.filling {
			t.Errorf("%s: told is %+v, want %d, and filling %v", what, got, c.order, c.filling)
		}
	}
}
