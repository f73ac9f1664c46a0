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

// NewNames makes the Names of views, of which no two can make one name: the file would be refused. A view whose key
// can't be read is an error.
func NewNames(views []*replicator.View, tables []replicator.Table) (*Names, error) {
	all := &Names{views: map[string]*names{}}
	for _, v := range views {
		n, err := namesOf(v, tables)
		if err != nil {
			return nil, err
		}
		all.views[v.Name] = n
	}
	return all, nil
}

// Has reports whether a view of that name is one of them.
func (a *Names) Has(view string) bool { return a.views[view] != nil }

// begins is what all names begin with.
func (t *template) begins() string {
	if len(t.parts) == 0 {
		return t.tail
	}
	return t.parts[0].text
}

// Begins is what all names of the view begin with; "" if that is nothing in particular.
func (a *Names) Begins(v *replicator.View) string {
	if own := a.views[v.Name]; own != nil {
		return own.template.begins()
	}
	return ""
}

// Entities reports whether the view's key can make a name. Something that stands there and came from no cell was put
// into the view by somebody else. For a hash or JSON view, Entities also returns whose name it is: the entity's key as
// replicator.Key.String shows it; several, where values of different kinds are shown alike.
//
// Better none too many: a key that begins with a value could be any name, and a name whose last value holds a ":" may
// well be something of the application's beside the view's ("user:1:sessions"). Of these it says no.
func (a *Names) Entities(v *replicator.View, name string) (entities []string, ok bool) {
	own := a.views[v.Name]
	if own == nil {
		return nil, false
	}
	return own.entities(name)
}

// Makes reports whether the view's key can make a name, whatever its values hold. It is for names that the program
// itself made: they are not the application's. Makes says no of a key that begins with a value.
func (a *Names) Makes(v *replicator.View, name string) bool {
	own := a.views[v.Name]
	if own == nil || len(own.template.parts) > 0 && own.template.parts[0].text == "" {
		return false
	}
	_, _, fits := own.template.fit(name)
	return fits
}

// names is what is known of the names of one view.
type names struct {
	template *template
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
	values, last, ok := t.fit(text)
	switch {
	case !ok || len(t.parts) == 0:
		return nil, ok
	case t.parts[0].text == "", strings.Contains(last, ":"):
		return nil, false
	}
	return append(values, last), true
}

// fit finds the values of a text that the template makes, the last by itself.
func (t *template) fit(text string) (values []string, last string, ok bool) {
	if len(t.parts) == 0 {
		return nil, "", text == t.tail
	}
	rest, ok := strings.CutPrefix(text, t.parts[0].text)
	for i := 0; ok && i < len(t.parts)-1; i++ {
		between, escape := t.parts[i+1].text, t.parts[i].escape
		end := strings.IndexByte(rest, escape) - strings.IndexByte(between, escape)
		if end < 0 || !strings.HasPrefix(rest[end:], between) {
			return nil, "", false
		}
		values = append(values, decoded(rest[:end]))
		rest = rest[end+len(between):]
	}
	last, tailed := strings.CutSuffix(rest, t.tail)
	return values, last, ok && tailed && last != ""
}

// decoded is a value without the percent-encoding of keytemplate.AppendEncoded.
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
