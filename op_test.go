package replicator

import "testing"

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
