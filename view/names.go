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
	for _, v := range views {
		own := all.views[v.Name]
		for _, other := range views {
			n := all.views[other.Name]
			if n != own && n.template.before(own.template) && n.template.meets(own.template) {
				own.owners = append(own.owners, owner{other.Name, n.template})
			}
		}
		slices.SortFunc(own.owners, func(a, b owner) int {
			if a.template.before(b.template) {
				return -1
			}
			return 1
		})
	}
	return all, nil
}

// Has reports whether a view of that name is one of them.
func (a *Names) Has(view string) bool { return a.views[view] != nil }

// Owner tells of names that the view's key makes whose they are: another view's, or ("") its own. Through a value two
// templates may make one name, as user:{id} and user:posts:{id} do where an id is "posts:5". It is then that one's
// which has more text of its own, and among equals that one's whose template comes first in order. The function is nil
// where no other view's template can do so.
func (a *Names) Owner(v *replicator.View) func(name string) string {
	own := a.views[v.Name]
	if own == nil || len(own.owners) == 0 {
		return nil
	}
	return func(name string) string {
		for _, o := range own.owners {
			if _, _, fits := o.template.fit(name); fits {
				return o.view
			}
		}
		return ""
	}
}

// owner is a view to which names belong that another one makes, too.
type owner struct {
	view     string
	template *template
}

// before reports whether names that both templates make are t's.
func (t *template) before(other *template) bool {
	own, theirs := t.text(), other.text()
	if len(own) != len(theirs) {
		return len(own) > len(theirs)
	}
	return own < theirs
}

// text is what does not come from values.
func (t *template) text() string {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.text)
	}
	return b.String() + t.tail
}

// meets reports whether both templates may make one name, as far as beginnings and ends tell.
func (t *template) meets(other *template) bool {
	a, b := t.begins(), other.begins()
	return (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) &&
		(strings.HasSuffix(t.tail, other.tail) || strings.HasSuffix(other.tail, t.tail))
}

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

// Makes reports whether a name is one that the view's key makes, and not another view's, whatever its values hold: of a
// name that the program itself made nobody has to ask whether it is the application's. Of a key that begins with a
// value it says no: it could be any name.
func (a *Names) Makes(v *replicator.View, name string) bool {
	own := a.views[v.Name]
	if own == nil || len(own.template.parts) > 0 && own.template.parts[0].text == "" {
		return false
	}
	if _, _, fits := own.template.fit(name); !fits {
		return false
	}
	owner := a.Owner(v)
	return owner == nil || owner(name) == ""
}

// names is what is known of the names of one view.
type names struct {
	template *template
	stored   string // the type of value under its names
	// for each table, the part of the template that shows each of its key columns; nil: names are of no entity
	keys [][]int

	owners []owner // of names that its key may make, too; the first that fits has it
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
