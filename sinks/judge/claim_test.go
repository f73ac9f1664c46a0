package judge

import (
	"errors"
	"reflect"
	"testing"

	"replicator"
)

// Of a cell that several sources have a row of the first is shown: the others wait, and one takes its place.
func TestWhoseCellIsShownOfSeveralSources(t *testing.T) {
	shown, waits := Known{Shown: true}, Known{Dead: true, Waits: true}
	at := func(k Known, version int64) Known {
		k.State = replicator.State{Version: version, Order: version}
		return k
	}
	a := func(k Known) []Fellow { return []Fellow{{"none", Unseen}, {"a", k}, {"last", waits}} }
	elsewhere := []replicator.Elsewhere{{ValueAt: replicator.ValueAt{Op: 0, View: 3}, Source: "a"}}
	for _, test := range []struct {
		name        string
		known       Known
		contributes bool
		fellows     []Fellow
		yields      bool
		heir        int
		claimed     bool
		elsewhere   []replicator.Elsewhere
	}{
		{"nobody else has it", Unseen, true, []Fellow{{"a", Unseen}}, false, -1, false, nil},
		{"another one is shown", Unseen, true, a(shown), true, -1, true, nil},
		{"another one is shown, and this one has none", at(shown, 5), false, a(shown), true, -1, false, elsewhere},
		{"another one waits while this one stays", at(shown, 5), true, a(waits), false, -1, false, nil},
		{"another one waits, and this one goes", at(shown, 5), false, a(waits), false, 1, false, elsewhere},
		{"a stale op of one that waits", at(waits, 9), false, a(shown), true, -1, false, nil},
		{"a stale op of one that has none", at(Known{}, 9), false, a(shown), true, -1, false, elsewhere},
		{"a stale op of one that is shown", at(shown, 9), false, a(waits), false, -1, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := NewBatch([]replicator.Op{put(7, 7, 3)})
			b.Judge(0, 0, test.known)
			yields, heir := b.Claim(0, 0, test.known, test.contributes, test.fellows)
			if yields != test.yields || heir != test.heir {
				t.Errorf("it yields: %v, the heir is %d", yields, heir)
			}
			applied := b.Applied()
			claimed := len(applied.Rejected) == 1 && errors.Is(applied.Rejected[0].Err, replicator.ErrClaimed)
			if claimed != test.claimed || !reflect.DeepEqual(applied.Elsewhere, test.elsewhere) {
				t.Errorf("the outcome is %+v", applied)
			}
			b.Judge(0, 0, Unseen) // once more, after a lost race: nobody else has it
			if again := b.Applied(); len(again.Rejected)+len(again.Elsewhere) > 0 {
				t.Errorf("judged again: %+v", again)
			}
		})
	}
}
