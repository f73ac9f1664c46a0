package redis

import "strconv"

// The keys of a view with an expiry expire. The records of their entities stay, so a replay of an older change doesn't
// bring a key back. Every change that counts restarts the expiry of the keys, even if the value is the same. So do
// fills and repairs. A repetition of a change that was already applied does not restart it, and neither does a
// comparison. A comparison accepts an expired key if the records say that the last change was applied.

// goes says when a key expires: some milliseconds after the change, never, or at the time that is already set.
type goes int64

const (
	asIs  goes = 0
	never goes = -1
)

// after reports whether the key expires some time after the change.
func (g goes) after() bool { return g > 0 }

// text returns the expiry in the form that the scripts take.
func (g goes) text() string {
	if g == asIs {
		return ""
	}
	return strconv.FormatInt(int64(g), 10)
}

// outlive makes the keys of a view that has no expiry lose the expiry of an earlier definition. Writing a string
// removes its expiry anyway.
func (k *keeper) outlive() {
	switch k.kind {
	case kindHash, kindSet, kindMembers:
		if k.goes == asIs {
			k.goes = never
		}
	}
}

// applied reports whether the record says that the cell's expected contribution is the one that was applied last.
func (k *keeper) applied(v *viewRecord, claims []claim) bool {
	applied := ""
	if v != nil && v.generation == k.generation {
		applied = v.claims
	}
	return applied == string(appendClaims(nil, claims))
}

// expired reports whether a spot (a key, or a member of a key) rightly shows nothing, because the expected value
// expired. A set may still exist because of other entities that changed later.
func (c *comparison) expired(s *spot) bool { return c.k.goes.after() && c.applied && s.gone }
