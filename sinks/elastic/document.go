package elastic

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"replicator"
	"replicator/sinks/judge"
)

// stateField is where a document keeps what the sink remembers of its cells.
const stateField = "_replicator"

// stateAlone is what to ask for where the state decides alone. What cells of a merged document contribute is not asked
// for, but where a field or a column has the name of one of these members: to name what is not wanted would cost the
// cell of a column f, as Elasticsearch takes the dots in cells' names for levels.
var stateAlone = []string{stateField + ".hidden", stateField + ".dead", stateField + ".cells.**.k",
	stateField + ".cells.**.v", stateField + ".cells.**.o", stateField + ".cells.**.a", stateField + ".cells.**.d"}

// keeper keeps one view in its index.
type keeper struct {
	view       *replicator.View
	place      int // in Target.Views
	alias      string
	generation *generation
	gate       atomic.Pointer[gate]
	moved      int64    // the horizon that the gate was moved for last
	forgets    int64    // the horizon below which may be forgotten: no write judged by a lower one is under way
	merged     bool     // several cells may share a document: it then keeps the fields of each
	names      [][]byte // the fields' names, quoted, with a colon
	documentID func(*replicator.View, replicator.Cell) (string, string, error)
	sizes      sizes
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
		return "", "", errors.New("the document's id or routing would not be valid UTF-8: " +
			"show the key's bytes with {…:hex} or {…:base64}")
	}
	return id, routing, nil
}

// document is the view's of an id and a routing, of which nothing is known yet.
func (k *keeper) document(id, routing string) *document {
	g := k.gate.Load()
	return &document{index: g.alias, horizon: g.horizon, id: id, routing: routing, keeper: k}
}

// slot is what a document holds of one cell.
type slot struct {
	name string // slotName of the cell
	key  replicator.Key
	judge.Known
	barren bool     // it Waits, and what it would contribute can't be stored
	fields [][]byte // JSON texts in the order of the view's fields, nil where one is missing
}

// gone reports whether the cell's source has no row of it, as far as the document knows.
func (s *slot) gone() bool { return s.State.Version == replicator.NoVersion }

// field is what the cell gives to a field, the view's i-th; nil if nothing.
func (s *slot) field(i int) []byte {
	if !s.Shown || s.fields == nil {
		return nil
	}
	return s.fields[i]
}

// contents are the cells of a document. What is written has them in the order in which a merge takes them.
type contents []*slot

// find is the cell of a name; nil if there is none.
func (c contents) find(name string) *slot {
	for _, s := range c {
		if s.name == name {
			return s
		}
	}
	return nil
}

// known is what the document says of the cell of a name.
func (c contents) known(name string) judge.Known {
	if s := c.find(name); s != nil {
		return s.Known
	}
	return judge.Unseen
}

// with puts a cell in, in place of the one of its name.
func (c contents) with(s *slot) contents {
	for i := range c {
		if c[i].name == s.name {
			c[i] = s
			return c
		}
	}
	return append(c, s)
}

// sort brings cells into the order in which the view takes fields from them. Those of one key and several sources may
// have keys of different types, so it goes by the sources' names.
func (k *keeper) sort(c contents) {
	slices.SortFunc(c, func(a, b *slot) int {
		_, first, _ := cellOf(a.name, "")
		_, second, _ := cellOf(b.name, "")
		return cmp.Or(judge.Order(k.view, first, second), cmp.Compare(a.name, b.name))
	})
}

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
	Cells  map[string]*storedSlot `json:"cells"`
}

type storedSlot struct {
	Key     []byte                     `json:"k"`
	Version int64                      `json:"v"`
	Order   int64                      `json:"o"`
	AsOf    int64                      `json:"a"`
	Dead    bool                       `json:"d"`
	Waits   bool                       `json:"w"`
	Barren  bool                       `json:"b"`
	Fields  map[string]json.RawMessage `json:"f"` // what it contributes, or would if it did not wait, in merged documents
}

// contents are the cells of a document as it was read; none if it does not exist.
func (d *document) contents() contents {
	if !d.exists {
		return nil
	}
	return d.keeper.parse(d.source)
}

// parse reads a document's state; what each cell contributes only where several may share a document: see complete. Of
// a state that can't be read, as somebody changed it by hand, nothing is known: the next op of any of its cells writes
// the document anew, and what other cells gave it a comparison then misses.
func (k *keeper) parse(source []byte) contents {
	state, err := readState(source)
	if err != nil {
		return nil
	}
	all := make(contents, 0, len(state.Cells))
	for name, s := range state.Cells {
		if s == nil {
			continue
		}
		c := &slot{name: name, key: replicator.Key(s.Key)}
		c.State = replicator.State{Version: s.Version, Order: s.Order, AsOf: s.AsOf}
		if c.Dead, c.Shown = s.Dead, !state.Hidden; k.merged {
			c.Shown, c.Waits, c.barren = s.Fields != nil && !s.Dead, s.Waits, s.Barren
			if s.Fields != nil {
				c.fields = k.fieldsOf(s.Fields)
			}
		}
		all = append(all, c)
	}
	return all
}

// readState reads the state in a document's source. It is what render writes last, and to read nothing else costs a
// third: text from the field's name up to the document's closing brace is one JSON value only if it is the document's
// last member.
func readState(source []byte) (state storedState, err error) {
	const name = `"` + stateField + `":`
	if at := bytes.LastIndex(source, []byte(name)); at > 0 && source[at-1] != '\\' && source[len(source)-1] == '}' {
		s := scanner{rest: source[at+len(name) : len(source)-1]}
		if state = s.state(); s.end() {
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
	if k.merged || !s.Shown || s.fields != nil {
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

// maxDepth is how deeply a value may be nested: the server's parser stops at 1000, and a merged document holds values
// two levels deeper.
const maxDepth = 500

// contribution converts an entry's fields; an error says what can't be stored.
func (k *keeper) contribution(e replicator.Entry) ([][]byte, error) {
	fields := make([][]byte, len(e.Fields))
	size := 0
	for i, v := range e.Fields {
		if v == nil {
			continue
		}
		var err error
		if fields[i], err = replicator.AppendExactJSON(nil, v, maxDepth); err != nil {
			return nil, fmt.Errorf("field %s: %w", k.view.Fields[i].Name, err)
		}
		size += len(fields[i])
	}
	if size > maxDocument {
		return nil, errTooLarge(size)
	}
	return fields, nil
}

// render appends the document's source, a JSON object on one line: the merged fields, then the state.
func (k *keeper) render(dst []byte, c contents) []byte {
	hidden := true
	for _, s := range c {
		hidden = hidden && !s.Shown
	}
	dst = append(dst, '{')
	for i := range k.view.Fields {
		if giver := judge.Giver(len(c), func(n int) bool { return c[n].field(i) != nil }); giver >= 0 {
			dst = append(append(append(dst, k.names[i]...), c[giver].fields[i]...), ',')
		}
	}
	dst = append(dst, `"_replicator":{`...)
	if hidden {
		dst = append(dst, `"hidden":true,`...)
	}
	dst = append(dst, `"cells":{`...)
	for i, s := range c {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = k.renderSlot(dst, s)
	}
	return append(dst, "}}}"...)
}

func (k *keeper) renderSlot(dst []byte, s *slot) []byte {
	dst = append(replicator.AppendJSON(dst, s.name), `:{"k":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, []byte(s.key))
	dst = append(dst, `","v":`...)
	dst = strconv.AppendInt(dst, s.State.Version, 10)
	dst = append(dst, `,"o":`...)
	dst = strconv.AppendInt(dst, s.State.Order, 10)
	if s.State.AsOf != 0 {
		dst = append(dst, `,"a":`...)
		dst = strconv.AppendInt(dst, s.State.AsOf, 10)
	}
	if s.Dead {
		dst = append(dst, `,"d":true`...)
	}
	if s.Waits {
		dst = append(dst, `,"w":true`...)
	}
	if s.barren {
		dst = append(dst, `,"b":true`...)
	}
	if k.merged && (s.Shown || s.Waits && s.fields != nil) {
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
