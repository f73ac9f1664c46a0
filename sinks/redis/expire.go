package redis

import "strconv"

// Keys of a view with an expiry go by themselves. What is remembered of their entities stays: it is what keeps an older
// change, which is replayed, from bringing a key back. So every change that counts writes the key, also one that says
// the same, and nothing but a change does: not what is read a second time, and no comparison, to which a key that is
// gone is right as long as the records say that the last change was applied.

// goes is when a key goes after a change: after so many milliseconds, or never, or when it was to go before.
type goes int64

const (
	asIs  goes = 0
	never goes = -1
)

// after reports whether the key goes some time after the change.
func (g goes) after() bool { return g > 0 }

// text is how the scripts are told.
func (g goes) text() string {
	if g == asIs {
		return ""
	}
	return strconv.FormatInt(int64(g), 10)
}

// outlive has the keys of a view without an expiry stay that may have one, by an earlier definition of the view. A
// string has lost it once it is written.
func (k *keeper) outlive() {
	switch k.kind {
	case kindHash, kindSet, kindMembers:
		if k.goes == asIs {
			k.goes = never
		}
	}
}

// applied reports whether a record says that what a cell should contribute was applied last.
func (k *keeper) applied(v *viewRecord, claims []claim) bool {
	applied := ""
	if v != nil && v.generation == k.generation {
		applied = v.claims
	}
	return applied == string(appendClaims(nil, claims))
}

// expired reports whether a spot shows nothing and that is right: it showed what is wanted until its time was over. Of a
// set the key may be there, for the sake of other entities that changed later.
func (c *comparison) expired(s *spot) bool { return c.k.goes.after() && c.applied && s.gone }
