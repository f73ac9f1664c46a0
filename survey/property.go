package survey

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/seen"
)

const (
	maxDepth      = 3   // levels of objects to search for properties
	maxElements   = 100 // elements of a list to search
	maxProperties = 60  // listed properties of one kind of rows; if there are more, their names are probably keys of a map
)

// property is a property of the sampled bodies. If its path goes through lists, it stands for every element.
type property struct {
	path    string // the property's path in a view's definition
	name    string // the last name of the path
	present int    // the number of documents that have the property with a value other than null
	list    bool   // the path goes through a list

	seen.Values
	values map[string]bool

	seenIn int // number of the last document that has the property; the first document is 1
}

// collect lists the properties of documents by path. more reports whether there are more than are listed.
func collect(docs []replicator.Object) (all []*property, more bool) {
	c := collector{properties: map[string]*property{}}
	for i, doc := range docs {
		c.document = i + 1
		c.object("", doc, 1, false)
	}
	for _, p := range c.properties {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *property) int { return strings.Compare(a.path, b.path) })
	return all, c.more
}

type collector struct {
	properties map[string]*property
	document   int
	more       bool
}

func (c *collector) object(path string, object replicator.Object, depth int, list bool) {
	for _, m := range object {
		if m.Name == "" {
			continue // a path can't name a member without a name
		}
		under := pathName(m.Name)
		if path != "" {
			under = path + "." + under
		}
		c.value(under, m.Name, m.Value, depth, list)
	}
}

func (c *collector) value(path, name string, v any, depth int, list bool) {
	if _, unread := v.(replicator.Unread); v == nil || unread {
		return
	}
	p := c.properties[path]
	if p == nil {
		if len(c.properties) >= maxProperties {
			c.more = true
			return
		}
		p = &property{path: path, name: name, list: list, values: map[string]bool{}}
		c.properties[path] = p
	}
	if p.seenIn != c.document {
		p.present, p.seenIn = p.present+1, c.document
	}
	p.add(v)
	switch v := v.(type) {
	case replicator.Object:
		if depth < maxDepth {
			c.object(path, v, depth+1, list)
		}
	case []any:
		for _, e := range v[:min(len(v), maxElements)] {
			switch e := e.(type) {
			case replicator.Object:
				if depth < maxDepth {
					c.object(path+"[]", e, depth+1, true)
				}
			case []any: // a list within a list is left out
			default:
				c.value(path+"[]", name, e, depth, true)
			}
		}
	}
}

func (p *property) add(v any) {
	p.Add(v)
	switch v.(type) {
	case []any, replicator.Object:
	default:
		p.values[replicator.FormatValue(v)] = true
	}
}

// String describes the kinds of the property's values. It adds lengths and ranges, unless the property looks like a
// secret.
func (p *property) String() string {
	var kinds []string
	add := func(n int, kind, format string, args ...any) {
		if n > 0 && format != "" && !secret(p.name) {
			kind += " (" + fmt.Sprintf(format, args...) + ")"
		}
		if n > 0 {
			kinds = append(kinds, kind)
		}
	}
	add(p.UUIDs, "uuid", "")
	add(p.Texts, "string", "length up to %d", p.Longest)
	add(p.Bytes, "bytes", "length up to %d", p.Longest)
	add(p.Integers, "integer", "%s to %s", p.Least, p.Greatest)
	add(p.Decimals, "decimal", "digits: up to %d before the point, %d after", p.Digits, p.Scale)
	add(p.Floats, "float", "")
	add(p.Booleans, "boolean", "")
	add(p.Lists, "list", "")
	add(p.Objects, "object", "")
	return strings.Join(kinds, "; or ")
}
