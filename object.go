package replicator

import (
	"maps"
	"slices"
	"strings"
)

// Object is a decoded object: its members sorted by name, each name once. It is not a Go map, because bodies hold many
// small objects: maps caused a sixth of all allocated memory (336 bytes for a map of one member, 56 for an Object).
type Object []Member

type Member struct {
	Name  string
	Value any
}

// MakeObject makes an object of members in any order, and sorts them in place. If several members have the same name,
// the last of them is kept.
func MakeObject(members []Member) Object {
	sorted := true
	for i := 1; i < len(members); i++ {
		if members[i-1].Name >= members[i].Name {
			sorted = false
			break
		}
	}
	if sorted {
		return members
	}
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	kept := members[:0]
	for i, m := range members {
		if i+1 == len(members) || members[i+1].Name != m.Name {
			kept = append(kept, m)
		}
	}
	clear(members[len(kept):])
	return kept
}

// ObjectOf converts a map to an object.
func ObjectOf(m map[string]any) Object {
	o := make(Object, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		o = append(o, Member{name, m[name]})
	}
	return o
}

// Get returns the member's value, or nil if there is no such member.
func (o Object) Get(name string) any {
	i, found := slices.BinarySearchFunc(o, name, func(m Member, name string) int {
		return strings.Compare(m.Name, name)
	})
	if !found {
		return nil
	}
	return o[i].Value
}
