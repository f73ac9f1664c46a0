package elastic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"replicator"
)

// stateField is where a document keeps what the sink remembers of its cells.
const stateField = "_replicator"

// keeper keeps one view in its index.
type keeper struct {
	view       *replicator.View
	generation *generation
	merged     bool     // several cells may share a document: it then keeps the fields of each
	names      [][]byte // the fields' names, quoted, with a colon
	documentID func(*replicator.View, replicator.Cell) (string, string, error)
}

// id is the document's id and routing.
func (k *keeper) id(c replicator.Cell) (id, routing string, err error) {
	if k.view.Key == "" && k.view.Member == "" {
		id = c.Key.String()
	} else if id, routing, err = k.documentID(k.view, c); err != nil {
		return "", "", err
	}
	if id == "" {
		id = c.Key.String()
	}
	switch {
	case id == "":
		return "", "", errors.New("the document's id would be empty")
	case len(id) > 512:
		return "", "", fmt.Errorf("the document's id would have %d bytes, and Elasticsearch allows 512", len(id))
	case id == registryID:
		return "", "", fmt.Errorf("the id %s is the program's own: set another id template", registryID)
	case !replicator.ValidText(id) || !replicator.ValidText(routing):
		return "", "", errors.New("the document's id or routing would not be valid UTF-8: show the key's bytes with {…:hex} or {…:base64}")
	}
	return id, routing, nil
}

// slot is what a document holds of one cell.
type slot struct {
	key     replicator.Key
	state   replicator.State
	present bool     // it contributes
	dead    bool     // it does not because it is a dead letter
	fields  [][]byte // JSON texts in the order of the view's fields, nil where one is missing
}

// contents are a document: its cells by slotName.
type contents map[string]*slot

// slotName tells cells of one document apart: TABLE.COLUMN, with @SOURCE where there are shards. It is stored.
func slotName(source string, c replicator.Cell) string {
	name := url.QueryEscape(c.Table) + "." + url.QueryEscape(c.Column)
	if source != "" {
		name += "@" + url.QueryEscape(source)
	}
	return name
}

// cellOf is the cell that a slot is of; false if its name has another form.
func cellOf(name string, key replicator.Key) (source string, c replicator.Cell, ok bool) {
	name, source, _ = strings.Cut(name, "@")
	table, column, found := strings.Cut(name, ".")
	if !found {
		return "", c, false
	}
	var errs [3]error
	source, errs[0] = url.QueryUnescape(source)
	c.Table, errs[1] = url.QueryUnescape(table)
	c.Column, errs[2] = url.QueryUnescape(column)
	c.Key = key
	return source, c, errors.Join(errs[:]...) == nil
}

// storedState is the form of the state in a document. Names are short: every document carries them.
type storedState struct {
	Hidden bool                   `json:"hidden"`
	Dead   bool                   `json:"dead"` // some cell is
	Cells  map[string]*storedSlot `json:"cells"`
}

type storedSlot struct {
	Key     []byte                     `json:"k"`
	Version int64                      `json:"v"`
	Order   int64                      `json:"o"`
	AsOf    int64                      `json:"a"`
	Dead    bool                       `json:"d"`
	Fields  map[string]json.RawMessage `json:"f"` // what it contributes, in merged documents
}

// parse reads a document's state; what each cell contributes only where several may share a document: see complete.
func (k *keeper) parse(source []byte) (contents, error) {
	state, err := readState(source)
	if err != nil {
		return nil, fmt.Errorf("a document's state can't be read: %w; rebuild view %s", err, k.view.Name)
	}
	all := contents{}
	for name, s := range state.Cells {
		if s == nil {
			continue
		}
		c := &slot{key: replicator.Key(s.Key), state: replicator.State{Version: s.Version, Order: s.Order, AsOf: s.AsOf}, dead: s.Dead}
		if k.merged {
			c.present = s.Fields != nil
			c.fields = k.fieldsOf(s.Fields)
		} else {
			c.present = !state.Hidden
		}
		all[name] = c
	}
	return all, nil
}

// readState reads the state in a document's source. It is what render writes last, and to read nothing else costs a
// third: text from the field's name up to the document's closing brace is one JSON value only if it is the document's
// last member.
func readState(source []byte) (state storedState, err error) {
	const name = `"` + stateField + `":`
	if at := bytes.LastIndex(source, []byte(name)); at > 0 && source[at-1] != '\\' && source[len(source)-1] == '}' {
		if json.Unmarshal(source[at+len(name):len(source)-1], &state) == nil {
			return state, nil
		}
	}
	var doc struct {
		State storedState `json:"_replicator"`
	}
	err = json.Unmarshal(source, &doc)
	return doc.State, err
}

// complete gives the only cell of a document what the document shows, for when it has to be written again as it is.
func (k *keeper) complete(s *slot, source []byte) error {
	if k.merged || !s.present || s.fields != nil {
		return nil
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(source, &top); err != nil {
		return fmt.Errorf("view %s: a document can't be read: %w", k.view.Name, err)
	}
	s.fields = k.fieldsOf(top)
	return nil
}

func (k *keeper) fieldsOf(values map[string]json.RawMessage) [][]byte {
	fields := make([][]byte, len(k.view.Fields))
	for i, f := range k.view.Fields {
		v := values[f.Name]
		if v == nil || string(v) == "null" {
			continue
		}
		if bytes.IndexByte(v, '\n') >= 0 { // somebody wrote the document by hand; a line ends an item of a bulk request
			var line bytes.Buffer
			if json.Compact(&line, v) == nil {
				v = line.Bytes()
			}
		}
		fields[i] = v
	}
	return fields
}

// contribution converts an entry's fields; an error says what can't be stored.
func (k *keeper) contribution(e replicator.Entry) ([][]byte, error) {
	fields := make([][]byte, len(e.Fields))
	size := 0
	for i, v := range e.Fields {
		if v == nil {
			continue
		}
		if err := storable(v, 0); err != nil {
			return nil, fmt.Errorf("field %s: %w", k.view.Fields[i].Name, err)
		}
		fields[i] = replicator.AppendJSON(nil, v)
		size += len(fields[i])
	}
	if size > maxDocument {
		return nil, errTooLarge(size)
	}
	return fields, nil
}

// storable reports what JSON, or Elasticsearch's parser, would not take as it is. Nothing is changed to make it fit.
func storable(v any, depth int) error {
	if depth > 500 { // the server's parser stops at 1000, and a merged document holds values two levels deeper
		return errors.New("it is nested more than 500 deep")
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("it is not a finite number, which JSON can't say")
		}
	case string:
		if !replicator.ValidText(v) {
			return errors.New("it is text that is not valid UTF-8")
		}
	case []any:
		for _, e := range v {
			if err := storable(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, e := range v {
			if !replicator.ValidText(name) {
				return errors.New("it has a member whose name is not valid UTF-8")
			}
			if err := storable(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// slots are the names of a document's cells in the order that a merge takes them.
func (k *keeper) slots(c contents) []string {
	type place struct {
		name   string
		feed   int
		column string
	}
	places := make([]place, 0, len(c))
	for name, s := range c {
		_, cell, ok := cellOf(name, s.key)
		p := place{name: name, feed: -1, column: cell.Column}
		if ok {
			p.feed = k.view.Feed(cell)
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.feed, b.feed), cmp.Compare(a.column, b.column), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = p.name
	}
	return names
}

// render appends the document's source, a JSON object on one line: the merged fields, then the state.
func (k *keeper) render(dst []byte, c contents) []byte {
	names := []string{""}
	if len(c) == 1 {
		for name := range c {
			names[0] = name
		}
	} else {
		names = k.slots(c)
	}
	hidden, dead := true, false
	for _, s := range c {
		hidden, dead = hidden && !s.present, dead || s.dead
	}
	dst = append(dst, '{')
	for i := range k.view.Fields {
		for _, name := range names {
			if s := c[name]; s.present && s.fields != nil && s.fields[i] != nil {
				dst = append(append(append(dst, k.names[i]...), s.fields[i]...), ',')
				break
			}
		}
	}
	dst = append(dst, `"_replicator":{`...)
	if hidden {
		dst = append(dst, `"hidden":true,`...)
	}
	if dead {
		dst = append(dst, `"dead":true,`...)
	}
	dst = append(dst, `"cells":{`...)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = k.renderSlot(dst, name, c[name])
	}
	return append(dst, "}}}"...)
}

func (k *keeper) renderSlot(dst []byte, name string, s *slot) []byte {
	dst = append(replicator.AppendJSON(dst, name), `:{"k":"`...)
	dst = appendBase64(dst, string(s.key))
	dst = append(dst, `","v":`...)
	dst = strconv.AppendInt(dst, s.state.Version, 10)
	dst = append(dst, `,"o":`...)
	dst = strconv.AppendInt(dst, s.state.Order, 10)
	if s.state.AsOf != 0 {
		dst = append(dst, `,"a":`...)
		dst = strconv.AppendInt(dst, s.state.AsOf, 10)
	}
	if s.dead {
		dst = append(dst, `,"d":true`...)
	}
	if k.merged && s.present {
		dst = append(dst, `,"f":{`...)
		first := true
		for i, f := range s.fields {
			if f == nil {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(dst, k.names[i]...), f...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// supplier is the name of the slot whose value a merged document shows for a field, and what it is; "" if none does.
// Elasticsearch names a member of an object by its path.
func (k *keeper) supplier(c contents, field string) (slot string, suspect suspect) {
	for i, f := range k.view.Fields {
		if f.Name != field && !strings.HasPrefix(field, f.Name+".") {
			continue
		}
		for _, name := range k.slots(c) {
			if s := c[name]; s.present && s.fields != nil && s.fields[i] != nil {
				return name, newSuspect(f.Name, s.fields[i])
			}
		}
	}
	return "", suspect
}

// misnamed returns the slot that a document has a member from whose name no mapping can hold; "" if none has.
func (k *keeper) misnamed(c contents) (slot string, suspect suspect) {
	for i, f := range k.view.Fields {
		for _, name := range k.slots(c) {
			if s := c[name]; s.present && s.fields != nil && s.fields[i] != nil && hasOddName(s.fields[i]) {
				return name, newSuspect(f.Name, s.fields[i])
			}
		}
	}
	return "", suspect
}

// suspect is a field that a document was refused for, and the kind of its value.
type suspect struct{ field, kind string }

func newSuspect(field string, value []byte) suspect {
	kind := "a number"
	switch value[0] {
	case '"':
		kind = "a text"
	case '{':
		kind = "an object"
	case '[':
		kind = "a list"
	case 't', 'f':
		kind = "a boolean"
	}
	return suspect{field, kind}
}

// hasOddName reports whether JSON has a member whose name no mapping can hold: it is blank, or empty before, between or
// behind dots.
func hasOddName(value []byte) bool {
	var v any
	return json.Unmarshal(value, &v) == nil && oddName(v)
}

func oddName(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, oddName)
	case map[string]any:
		for name, e := range v {
			blank := func(part string) bool { return strings.TrimSpace(part) == "" }
			if slices.ContainsFunc(strings.Split(name, "."), blank) || oddName(e) {
				return true
			}
		}
	}
	return false
}
