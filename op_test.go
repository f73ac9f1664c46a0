package replicator

import (
	"math/rand/v2"
	"testing"
)

func TestNext(t *testing.T) {
	at := func(version, order, asOf int64) State { return State{Version: version, Order: order, AsOf: asOf} }
	put := func(version, order int64) Op { return Op{Version: version, Order: order} }
	reset := func(version, asOf int64) Op { return Op{Version: version, AsOf: asOf} }
	rewrite := func(version, order int64) Op { return Op{Version: version, Order: order, Rewrite: true} }
	repair := func(version, asOf int64) Op { return Op{Version: version, AsOf: asOf, Rewrite: true} }
	for name, c := range map[string]struct {
		before  State
		op      Op
		after   State
		applied bool
	}{
		"the first put":                       {Unseen, put(5, 50), at(5, 50, 0), true},
		"a newer version":                     {at(5, 50, 0), put(6, 60), at(6, 60, 0), true},
		"a newer version that stands earlier": {at(5, 50, 0), put(6, 40), at(6, 40, 0), true},
		"an older version":                    {at(5, 50, 0), put(4, 60), at(5, 50, 0), false},
		"the same put again":                  {at(5, 50, 0), put(5, 50), at(5, 50, 0), true},
		"the same version, later":             {at(5, 50, 0), put(5, 60), at(5, 60, 0), true},
		"the same version, earlier":           {at(5, 50, 0), put(5, 40), at(5, 50, 0), false},
		"the newest is deleted":               {at(5, 50, 0), reset(4, 60), at(4, 60, 60), true},
		"the last is deleted": {at(5, 50, 0), reset(NoVersion, 60),
			at(NoVersion, 60, 60), true},
		"a put from before the look":                       {at(4, 60, 60), put(5, 50), at(4, 60, 60), false},
		"a put from the look's place":                      {at(4, 60, 60), put(4, 60), at(4, 60, 60), false},
		"a rewrite of what the look found at its place":    {at(4, 60, 60), rewrite(4, 60), at(4, 60, 60), true},
		"a rewrite of another version at the look's place": {at(4, 60, 60), rewrite(5, 60), at(4, 60, 60), false},
		"a rewrite from before the look":                   {at(4, 60, 60), rewrite(4, 59), at(4, 60, 60), false},
		"a rewrite of a version that a put brought later":  {at(4, 61, 60), rewrite(4, 60), at(4, 61, 60), false},
		"a put from after the look":                        {at(4, 60, 60), put(5, 61), at(5, 61, 60), true},
		"an older look":                                    {at(4, 60, 60), reset(3, 59), at(4, 60, 60), false},
		"the same look again":                              {at(4, 60, 60), reset(4, 60), at(4, 60, 60), true},
		"another look at the place, which found less":      {at(4, 60, 60), reset(3, 60), at(4, 60, 60), false},
		"another look at the place, which found nothing": {at(4, 60, 60),
			reset(NoVersion, 60), at(4, 60, 60), false},
		"another look at the place, which found more":             {at(4, 60, 60), reset(5, 60), at(5, 60, 60), true},
		"a repair at the place, which found less":                 {at(4, 60, 60), repair(3, 60), at(3, 60, 60), true},
		"a look before the last put: only as-of rises":            {at(5, 50, 0), reset(4, 45), at(5, 50, 45), false},
		"a look before the last put, at a higher version":         {at(3, 50, 0), reset(5, 45), at(5, 45, 45), true},
		"a delete of all before the last put":                     {at(5, 50, 0), reset(NoVersion, 45), at(5, 50, 45), false},
		"a put that was held up, of a version that a look missed": {at(3, 45, 41), put(5, 37), at(3, 45, 41), false},
	} {
		t.Run(name, func(t *testing.T) {
			if after, applied := c.before.Next(c.op); after != c.after || applied != c.applied {
				t.Errorf("%+v became %+v, applied %v; and not %+v, %v", c.before, after, applied, c.after, c.applied)
			}
		})
	}
}

// Two sinks judge the same random ops of one cell. One remembers every state, and the other forgets states at random
// moments. If the second sink judges an op, it must decide as the first one does.
func TestForgettingChangesNoVerdict(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	judged, unknown, forgot := 0, 0, 0
	for range 20_000 {
		remembers, forgets, horizon := Unseen, Unseen, int64(0)
		type step struct {
			op                 Op
			horizon            int64
			remembers, forgets State
		}
		var trace []step
		for range 12 {
			if rnd.IntN(3) == 0 {
				horizon += rnd.Int64N(4)
			}
			if forgets.Forgettable(horizon) && rnd.IntN(2) == 0 {
				forgot++
				forgets = Unseen
			}
			op := Op{Version: rnd.Int64N(4), Order: rnd.Int64N(15), Rewrite: rnd.IntN(8) == 0}
			if rnd.IntN(2) == 0 {
				op.Version, op.Order, op.AsOf = rnd.Int64N(5)-1, 0, 1+rnd.Int64N(15)
			}
			trace = append(trace, step{op, horizon, remembers, forgets})
			if forgets.Unknown(op, horizon) {
				unknown++
				continue // the cell is read again from the source instead
			}
			applied := false
			if !forgets.Obsolete(op, horizon) {
				forgets, applied = forgets.Next(op)
			}
			before := remembers
			next, applies := remembers.Next(op)
			remembers = next
			judged++
			changed := next.Version != before.Version
			if forgets.Version != remembers.Version || applies != applied && (changed || op.Version != NoVersion) {
				t.Fatalf("one applied it: %v, the other: %v; %+v and %+v\n%+v", applies, applied, remembers, forgets, trace)
			}
		}
	}
	t.Logf("%d ops judged, %d unknown, %d states forgotten", judged, unknown, forgot)
}

// A sink keeps the state of a cell that is not gone, or that is not below the horizon.
func TestOnlyWhatIsGoneAndBelowTheHorizonIsForgotten(t *testing.T) {
	for _, c := range []struct {
		state State
		may   bool
	}{
		{State{NoVersion, 5, 5}, true}, {State{NoVersion, 9, 5}, true}, {State{NoVersion, 10, 5}, false},
		{State{NoVersion, 5, 10}, false}, {State{3, 5, 5}, false}, {State{0, 0, 0}, false},
	} {
		if got := c.state.Forgettable(10); got != c.may {
			t.Errorf("%+v may be forgotten below 10: %v", c.state, got)
		}
	}
}

func TestWhatIsBelowTheHorizonIsReadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		state             State
		op                Op
		unknown, obsolete bool
	}{
		"a put of an unseen cell":                 {Unseen, Op{Version: 1, Order: 9}, true, false},
		"at the horizon":                          {Unseen, Op{Version: 1, Order: 10}, false, false},
		"a look at an unseen cell":                {Unseen, Op{Version: 1, AsOf: 9}, true, false},
		"an unseen cell is gone":                  {Unseen, Op{Version: NoVersion, AsOf: 9}, false, true},
		"an unseen cell is gone since":            {Unseen, Op{Version: NoVersion, AsOf: 10}, false, false},
		"a put that is refused":                   {State{5, 8, 0}, Op{Version: 4, Order: 9}, false, false},
		"a put of a version that was deleted":     {State{1, 11, 0}, Op{Version: 5, Order: 4}, true, false},
		"a known cell is gone":                    {State{1, 4, 0}, Op{Version: NoVersion, AsOf: 9}, false, false},
		"a look from before, at a higher version": {State{1, 11, 0}, Op{Version: 5, AsOf: 4}, true, false},
	} {
		if u, o := c.state.Unknown(c.op, 10), c.state.Obsolete(c.op, 10); u != c.unknown || o != c.obsolete {
			t.Errorf("%s: unknown %v, obsolete %v", name, u, o)
		}
	}
}
