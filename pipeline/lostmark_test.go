package pipeline

import (
	"errors"
	"fmt"
	"testing"

	"replicator"
)

func TestWhatASinkSaysOfItsLossIsTold(t *testing.T) {
	why := fmt.Errorf("partition 1 of topic cells begins at offset 45: %w", replicator.ErrSinkLost)
	m := &replicator.Mark{View: "v", Fingerprint: "f", Lost: why,
		Standing: replicator.Standing{Fill: map[string]replicator.Progress{}}}
	c := replicator.Checkpoint{View: "v", Fingerprint: "f"}
	c.Position = replicator.Position{Order: 7, Token: "p"}
	_, err := beginning(c, m, false)
	if want := why.Error(); !errors.Is(err, replicator.ErrSinkLost) || err.Error() != want {
		t.Errorf("it says %v, want %s", err, want)
	}
}
