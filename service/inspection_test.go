package service

import (
	"errors"
	"testing"

	"replicator"
	"replicator/verify"
)

// spread are the settings of a view in several databases.
type spread struct{}

func (spread) Spread() bool { return true }

func TestVerifyOpensNothingThatOpeningWouldBeginAnew(t *testing.T) {
	marks := []replicator.Mark{{View: "other", Fingerprint: "2"}, {View: "v", Fingerprint: "1"}}
	for _, c := range []struct {
		name    string
		view    replicator.View
		marks   []replicator.Mark
		refused bool
	}{
		{"a view as it was filled", replicator.View{Name: "v", Kind: "counter", Fingerprint: "1"}, marks, false},
		{"a view that was defined anew", replicator.View{Name: "v", Kind: "index", Fingerprint: "2"}, marks, true},
		{"a row that was never filled", replicator.View{Name: "v", Kind: "row", Fingerprint: "1"}, nil, false},
		{"a row that some shard does not know",
			replicator.View{Name: "v", Kind: "row", Fingerprint: "1", Settings: spread{}}, marks[:1], true},
		{"a counter that was never filled", replicator.View{Name: "v", Kind: "counter", Fingerprint: "1"}, marks[:1], true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := mayLookAt(&c.view, c.marks); errors.Is(err, verify.ErrUnverifiable) != c.refused {
				t.Errorf("it says %v", err)
			}
		})
	}
}
