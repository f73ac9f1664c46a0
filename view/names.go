package view

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/uuid"
)

// Names knows the names in Redis that the keys of views make. It is safe for concurrent use.
type Names struct{ views map[string]*names }

// NewNames makes the Names of views; stored is the type of value that the sink has under a view's names. A view whose
// key can't be read is an error.
func NewNames(views []*replicator.View, tables []replicator.Table,
	stored func(*replicator.View) string) (*Names, error) {
	all := &Names{views: map[string]*names{}}
	for _, v := range views {
		n, err := namesOf(v, tables)
		if err != nil {
			return nil, err
		}
		n.stored = stored(v)
		all.views[v.Name] = n
	}
	return all, nil
}

// Begins is what all names of the view begin with; "" if that is nothing in particular.
func (a *Names) Begins(v *replicator.View) string {
	own := a.views[v.Name]
	switch {
	case own == nil:
		return ""
	case len(own.template.parts) == 0:
		return own.template.tail
	}
	return own.template.parts[0].text
}

// Entities tells whether a name can be one that the view's key makes, and no other view's: what stands there and came
// from no cell is then something that somebody else put into the view. For a hash or JSON view it also says whose name
// it is: the entity's key as replicator.Key.String shows it; several, where values of different kinds are shown alike.
//
// Better none too many: a key that begins with a value could be any name, and a name whose last value holds a ":" may
// well be something of the application's beside the view's ("user:1:sessions"). Of these it says no.
func (a *Names) Entities(v *replicator.View, name string) (entities []string, ok bool) {
	own := a.views[v.Name]
	if own == nil {
		return nil, false
	}
	for other, n := range a.views {
		if _, fits := n.template.match(name); fits && other != v.Name && n.stored == own.stored {
			return nil, false
		}
	}
	return own.entities(name)
}

// names is what is known of the names of one view.
type names struct {
	template *template
	stored   string // the type of value under its names
	// for each table, the part of the template that shows each of its key columns; nil: names are of no entity
	keys [][]int
}

func namesOf(v *replicator.View, tables []replicator.Table) (*names, error) {
	t, err := parseTemplate(v.Key)
	if err != nil {
		return nil, fmt.Errorf("view %s: key: %w", v.Name, err)
	}
	n := &names{template: t}
	if v.Kind != "hash" && v.Kind != "json" {
		return n, nil
	}
	for _, from := range v.From {
		table, err := findTable(v, from.Table, tables)
		if err != nil {
			return nil, err
		}
		var parts []int
		for _, column := range table.Key {
			i := slices.IndexFunc(t.parts, func(p part) bool { return p.path.root == column })
			if i < 0 {
				return nil, fmt.Errorf("view %s: key: it leaves out %s", v.Name, column)
			}
			parts = append(parts, i)
		}
		n.keys = append(n.keys, parts)
	}
	return n, nil
}

func (n *names) entities(name string) (entities []string, ok bool) {
	values, ok := n.template.match(name)
	if !ok {
		return nil, false
	}
	for _, parts := range n.keys {
		texts := []string{""}
		for i, at := range parts {
			var longer []string
			for _, value := range n.template.parts[at].plain(values[at]) {
				if i < len(parts)-1 {
					value = keyEscape.Replace(value) + ":"
				}
				for _, text := range texts {
					longer = append(longer, text+value)
				}
			}
			texts = longer
		}
		entities = append(entities, texts...)
	}
	slices.Sort(entities)
	return slices.Compact(entities), true
}

// keyEscape is how replicator.Key.String writes all values but the last.
var keyEscape = strings.NewReplacer("%", "%25", ":", "%3A")

// plain is what a value may look like without the part's form: bytes are digits, a text that is a UUID has dashes.
func (p *part) plain(shown string) []string {
	switch p.form {
	case formUUID, formHex:
		texts := []string{strings.ReplaceAll(shown, "-", "")}
		if b, ok := uuid.Parse(shown); ok {
			texts = append(texts, uuid.Text(b))
		}
		return texts
	case formBase64:
		b, err := base64.RawURLEncoding.DecodeString(shown)
		if err != nil {
			return nil
		}
		texts := []string{hex.EncodeToString(b)}
		if len(b) == 16 {
			texts = append(texts, uuid.Text(b))
		}
		return texts
	}
	return []string{shown}
}

// match takes a text that render may have made apart into its values as they were shown; see Names for what it leaves
// alone.
func (t *template) match(text string) (values []string, ok bool) {
	if len(t.parts) == 0 {
		return nil, text == t.tail
	}
	if t.parts[0].text == "" {
		return nil, false
	}
	rest, ok := strings.CutPrefix(text, t.parts[0].text)
	for i := 0; ok && i < len(t.parts)-1; i++ {
		between, escape := t.parts[i+1].text, t.parts[i].escape
		end := strings.IndexByte(rest, escape) - strings.IndexByte(between, escape)
		if end < 0 || !strings.HasPrefix(rest[end:], between) {
			return nil, false
		}
		values = append(values, decoded(rest[:end]))
		rest = rest[end+len(between):]
	}
	last, tailed := strings.CutSuffix(rest, t.tail)
	if !ok || !tailed || last == "" || strings.Contains(last, ":") {
		return nil, false
	}
	return append(values, last), true
}

// decoded is a value without the percent-encoding of appendEncoded.
func decoded(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			if c, err := hex.DecodeString(value[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(value[i])
	}
	return b.String()
}
