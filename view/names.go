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

// Names recognizes the Redis keys that views produce. It is safe for concurrent use.
type Names struct{ views map[string]*names }

// NewNames returns a recognizer of the Redis keys that the views produce. It fails if a view's key template can't be
// parsed.
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

// Has reports whether NewNames got a view with the given name.
func (a *Names) Has(view string) bool { return a.views[view] != nil }

func (t *template) begins() string {
	if len(t.parts) == 0 {
		return t.tail
	}
	return t.parts[0].text
}

// Begins returns the text that all Redis keys of the view start with. It returns "" if they have no common start.
func (a *Names) Begins(v *replicator.View) string {
	if own := a.views[v.Name]; own != nil {
		return own.template.begins()
	}
	return ""
}

// Entities reports whether the view's key template can make the Redis key `name`. For a hash or JSON view, it also
// returns the keys of the rows that `name` may belong to, in the form of replicator.Key.String. When in doubt, it
// returns false: a template that starts with a value fits any key, and a key whose last value contains a ":" may be the
// application's own ("user:1:sessions").
func (a *Names) Entities(v *replicator.View, name string) (entities []string, ok bool) {
	own := a.views[v.Name]
	if own == nil {
		return nil, false
	}
	return own.entities(name)
}

// Makes reports whether the view's key template can make the Redis key `name`, which replicator wrote. So `name` is not
// the application's own key, and its last value may contain a ":". Makes returns false for a template that starts with
// a value, because such a template fits any key.
func (a *Names) Makes(v *replicator.View, name string) bool {
	own := a.views[v.Name]
	if own == nil || len(own.template.parts) > 0 && own.template.parts[0].text == "" {
		return false
	}
	_, _, fits := own.template.fit(name)
	return fits
}

type names struct {
	template *template
	// keys has, for each table of View.From, the indexes of the template's parts that show the key columns. It is set
	// only for hash and JSON views, which have a Redis key for each row.
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
				return nil, fmt.Errorf("view %s: key: lacks the key column %s", v.Name, column)
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

// keyEscape escapes a value of a key, as replicator.Key.String does for all values but the last.
var keyEscape = strings.NewReplacer("%", "%25", ":", "%3A")

// plain converts a value's text in a Redis key to the text that FormatValue gives for the value. It can return two
// texts, because the same digits may stand for bytes, or for a UUID that is stored as text with dashes.
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

// match finds the values from which the template makes a name. It refuses any name if the template starts with a value,
// and a name whose last value contains a ":", because the application may have made that name.
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

// fit finds the values from which the template makes a name. It returns the last value separately. ok is false if the
// template can't make the name.
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

// decoded decodes the percent-encoding of keytemplate.AppendEncoded.
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
