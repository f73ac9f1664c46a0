package replicator

import (
	"maps"
	"slices"
	"strings"
)

// Object is a decoded object: its members sorted by name, each name once. Bodies hold many small ones, and as Go's maps
// they took a sixth of all memory that was allocated (a map of one member 336 bytes, this 56).
type Object []Member

// Member is one member of an Object.
type Member struct {
	Name  string
	Value any
}

// MakeObject makes an object of members in any order, which it sorts in place. Of those of one name the last counts.
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

// ObjectOf is a map as an object.
func ObjectOf(m map[string]any) Object {
	o := make(Object, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		o = append(o, Member{name, m[name]})
	}
	return o
}

// Get returns a member's value, nil if there is none of the name.
func (o Object) Get(name string) any {
	i, found := slices.BinarySearchFunc(o, name, func(m Member, name string) int {
		return strings.Compare(m.Name, name)
	})
	if !found {
		return nil
	}
	return o[i].Value
}
