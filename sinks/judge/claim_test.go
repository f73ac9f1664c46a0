package judge

import (
	"errors"
	"reflect"
	"testing"

	"replicator"
)

// If several sources have a row of a cell, the first one is shown. The others wait, and one of them replaces it when it
// goes.
func TestWhoseCellIsShownOfSeveralSources(t *testing.T) {
	at := func(k Known, version int64) Known {
		k.State = replicator.State{Version: version, Order: version}
		return k
	}
	row, waits := at(Known{}, 3), at(Known{Dead: true, Waits: true}, 3)
	a := func(k Known) []Fellow {
		return []Fellow{{Source: "none", Known: Unseen}, {Source: "a", Known: k}, {Source: "last", Known: waits}}
	}
	dead, forgotten := row, Known{State: replicator.Unseen, Shown: true}
	dead.Dead = true
	const none = replicator.NoVersion
	elsewhere := []replicator.Elsewhere{{ValueAt: replicator.ValueAt{Op: 0, View: 3}, Source: "a"}}
	for _, test := range []struct {
		name      string
		known     Known
		version   int64
		fellows   []Fellow
		yields    bool
		heir      int
		claimed   bool
		elsewhere []replicator.Elsewhere
	}{
		{"nobody else has it", Unseen, 7, []Fellow{{Source: "a", Known: Unseen}}, false, -1, false, nil},
		{"another one has a row", Unseen, 7, a(row), true, -1, true, nil},
		{"another one's row is a dead letter", Unseen, 7, a(dead), true, -1, true, nil},
		{"what another one had is still shown", Unseen, 7, a(forgotten), true, -1, true, nil},
		{"another one has a row, and this one has none", at(row, 5), none, a(row), true, -1, false, elsewhere},
		{"another one's is a dead letter, and this one has none", at(row, 5), none, a(dead), true, -1, false, nil},
		{"another one waits while this one stays", at(row, 5), 7, a(waits), false, -1, false, nil},
		{"another one waits, and this one goes", at(row, 5), none, a(waits), false, 1, false, elsewhere},
		{"another one can't be held, and this one goes", at(row, 5), none,
			[]Fellow{{Source: "a", Known: waits, Barren: true}}, false, 0, false, nil},
		{"a stale op of one that waits", at(waits, 9), 7, a(row), true, -1, false, nil},
		{"a stale op of one that has none", Known{State: replicator.State{Version: none, Order: 9, AsOf: 9}}, 7, a(row),
			true, -1, false, elsewhere},
		{"a stale op of one that leads", at(row, 9), 7, a(waits), false, -1, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			op := put(test.version, 7, 3)
			if test.version == none {
				op.AsOf = 7
			}
			b := NewBatch([]replicator.Op{op})
			next, _ := b.Judge(0, 0, test.known)
			yields, waits, heir := b.Claim(0, 0, next, test.fellows)
			if yields != test.yields || waits != test.claimed || heir != test.heir {
				t.Errorf("it yields: %v, it waits: %v, the heir is %d", yields, waits, heir)
			}
			applied := b.Applied()
			claimed := len(applied.Rejected) == 1 && errors.Is(applied.Rejected[0].Err, replicator.ErrClaimed)
			if claimed != test.claimed || !reflect.DeepEqual(applied.Elsewhere, test.elsewhere) {
				t.Errorf("the outcome is %+v", applied)
			}
			b.Judge(0, 0, Unseen) // after a lost race, when no other source has the cell
			if again := b.Applied(); len(again.Rejected)+len(again.Elsewhere) > 0 {
				t.Errorf("judged again: %+v", again)
			}
		})
	}
}
