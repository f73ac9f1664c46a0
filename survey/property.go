package survey

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"replicator"
	"replicator/internal/uuid"
)

const (
	maxDepth      = 3   // levels of objects that properties are looked for in
	maxElements   = 100 // of a list
	maxProperties = 60  // of one sort of cell; more are as likely keys as names
)

// property is a property of sampled bodies: of every element, where its path leads through lists.
type property struct {
	path    string // as a view names it
	name    string // the last name of the path
	present int    // documents that have it, not null
	list    bool   // the path leads through a list

	texts, bytes, uuids, integers, decimals, floats, booleans, lists, objects int // values of a kind; uuids are texts or 16 bytes
	sixteens                                                                  int // texts of 16 bytes: what 16 bytes look like where text can't be told from them

	longest  int // characters of texts, and bytes of bytes
	least    *big.Int
	greatest *big.Int
	digits   int // of decimals: before the point
	scale    int // of decimals: after the point
	values   map[string]bool

	seenIn int // the last document it was seen in, from 1
}

// collect lists the properties of documents, by path; more tells whether there are more than can be listed.
func collect(docs []map[string]any) (all []*property, more bool) {
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

func (c *collector) object(path string, object map[string]any, depth int, list bool) {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names) // which ones are listed must not be chance
	for _, name := range names {
		if name == "" {
			continue // no path leads there
		}
		under := pathName(name)
		if path != "" {
			under = path + "." + under
		}
		c.value(under, name, object[name], depth, list)
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
	case map[string]any:
		if depth < maxDepth {
			c.object(path, v, depth+1, list)
		}
	case []any:
		for _, e := range v[:min(len(v), maxElements)] {
			switch e := e.(type) {
			case map[string]any:
				if depth < maxDepth {
					c.object(path+"[]", e, depth+1, true)
				}
			case []any: // no path leads further
			default:
				c.value(path+"[]", name, e, depth, true)
			}
		}
	}
}

func (p *property) add(v any) {
	switch v := v.(type) {
	case string:
		p.longest = max(p.longest, utf8.RuneCountInString(v))
		if _, ok := uuid.Parse(v); ok {
			p.uuids++
		} else {
			p.texts++
			if len(v) == 16 {
				p.sixteens++
			}
		}
	case []byte:
		p.longest = max(p.longest, len(v))
		if len(v) == 16 {
			p.uuids++
		} else {
			p.bytes++
		}
	case bool:
		p.booleans++
	case int64:
		p.integer(big.NewInt(v))
	case uint64:
		p.integer(new(big.Int).SetUint64(v))
	case replicator.Number:
		p.number(string(v))
	case float64:
		p.floats++
	case []any:
		p.lists++
		return
	case map[string]any:
		p.objects++
		return
	}
	p.values[replicator.FormatValue(v)] = true
}

func (p *property) integer(n *big.Int) {
	p.integers++
	if p.least == nil || n.Cmp(p.least) < 0 {
		p.least = n
	}
	if p.greatest == nil || n.Cmp(p.greatest) > 0 {
		p.greatest = n
	}
}

func (p *property) number(text string) {
	if n, ok := new(big.Int).SetString(text, 10); ok {
		p.integer(n)
		return
	}
	if strings.ContainsAny(text, "eE") {
		p.floats++
		return
	}
	p.decimals++
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	p.digits, p.scale = max(p.digits, len(whole)), max(p.scale, len(fraction))
}

// String says what kinds of values the property has; of what looks like a secret nothing more than that.
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
	add(p.uuids, "uuid", "")
	add(p.texts, "string", "length up to %d", p.longest)
	add(p.bytes, "bytes", "length up to %d", p.longest)
	add(p.integers, "integer", "%s to %s", p.least, p.greatest)
	add(p.decimals, "decimal", "digits up to %d.%d", p.digits, p.scale)
	add(p.floats, "float", "")
	add(p.booleans, "boolean", "")
	add(p.lists, "list", "")
	add(p.objects, "object", "")
	return strings.Join(kinds, "; or ")
}
