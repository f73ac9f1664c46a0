package redis

import "strconv"

// Keys of a view with an expiry expire. The records of their entities stay, so that a replay of an older change doesn't
// bring a key back. So every change that counts writes the key, even if its value is the same, and nothing else does:
// no repeated read, and no comparison. For a comparison, an expired key is right as long as the records say that the
// last change was applied.

// goes is when a key expires after a change: after some milliseconds, or never, or as before.
type goes int64

const (
	asIs  goes = 0
	never goes = -1
)

// after reports whether the key expires some time after the change.
func (g goes) after() bool { return g > 0 }

// text is the scripts' form.
func (g goes) text() string {
	if g == asIs {
		return ""
	}
	return strconv.FormatInt(int64(g), 10)
}

// outlive makes the keys of a view without an expiry stay, even if an earlier definition gave them one. Writing a
// string removes its expiry anyway.
func (k *keeper) outlive() {
	switch k.kind {
	case kindHash, kindSet, kindMembers:
		if k.goes == asIs {
			k.goes = never
		}
	}
}

// applied reports whether a record says that the cell's expected contribution was applied last.
func (k *keeper) applied(v *viewRecord, claims []claim) bool {
	applied := ""
	if v != nil && v.generation == k.generation {
		applied = v.claims
	}
	return applied == string(appendClaims(nil, claims))
}

// expired reports whether a spot rightly shows nothing: it showed the expected value until it expired. A set may still
// exist because of other entities that changed later.
func (c *comparison) expired(s *spot) bool { return c.k.goes.after() && c.applied && s.gone }
