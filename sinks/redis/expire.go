package redis

import "strconv"

// Keys of a view with an expiry expire, while the records of their entities stay: so a replay of an older change
// doesn't bring a key back. Every change that is applied restarts the expiry, even if the value is the same. A
// repetition of an applied change doesn't.

// goes says when a key expires: that many milliseconds after the change, never, or at the time that is already set.
type goes int64

const (
	asIs  goes = 0
	never goes = -1
)

func (g goes) after() bool { return g > 0 }

func (g goes) text() string {
	if g == asIs {
		return ""
	}
	return strconv.FormatInt(int64(g), 10)
}

// removeFormerExpiry is for a view without an expiry: changes then remove the expiry that an earlier definition of the
// view gave to keys. Kinds stored as strings don't need that, because SET removes an expiry.
func (k *keeper) removeFormerExpiry() {
	switch k.kind {
	case kindHash, kindSet, kindMembers:
		if k.goes == asIs {
			k.goes = never
		}
	}
}

// applied reports whether the sink last applied exactly `claims`, which the cell should contribute to the view. v is
// what the entity's record has of the cell in the view; nil: nothing.
func (k *keeper) applied(v *viewRecord, claims []claim) bool {
	applied := ""
	if v != nil && v.generation == k.generation {
		applied = v.claims
	}
	return applied == string(appendClaims(nil, claims))
}

// expired reports whether the key or member rightly shows nothing: the expected value was applied, and has expired
// since.
func (c *comparison) expired(s *spot) bool { return c.k.goes.after() && c.applied && s.gone }
