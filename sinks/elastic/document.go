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

// stateField is the field in which a document keeps the state of its cells.
const stateField = "_replicator"

// stateAlone lists the parts of a document to request if only the states of its cells are needed. A request must not
// exclude the contributions (f) instead: Elasticsearch splits a cell's name TABLE.COLUMN at the dot, so it would leave
// out the whole cell if COLUMN is f.
var stateAlone = []string{stateField + ".hidden", stateField + ".cells.**.k",
	stateField + ".cells.**.v", stateField + ".cells.**.o", stateField + ".cells.**.a", stateField + ".cells.**.d"}

// keeper writes and reads one view in its index.
type keeper struct {
	view       *replicator.View
	place      int // the view's index in Target.views
	alias      string
	generation *generation
	gate       atomic.Pointer[gate]
	moved      int64 // the view's horizon when its alias for writes (gate) was last replaced

	// Deleted cells below the log position `forgets` may be forgotten. It rises to a new horizon only once all writes
	// that were judged by a lower horizon have ended.
	forgets int64

	merged     bool     // several cells may share a document; its state then also holds the fields of each cell
	names      [][]byte // the fields' names as JSON, with a colon
	documentID func(*replicator.View, replicator.Cell) (string, string, error)
	sizes      sizes
}

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
		return "", "", fmt.Errorf("the document's id would have %d bytes, but Elasticsearch allows only 512", len(id))
	case id == registryID:
		return "", "", fmt.Errorf("the id %s is reserved for the program. Set another id template", registryID)
	case !replicator.ValidText(id) || !replicator.ValidText(routing):
		return "", "", errors.New("the document's id or routing would not be valid UTF-8. Show the key's bytes with " +
			"{…:hex} or {…:base64}")
	}
	return id, routing, nil
}

func (k *keeper) document(id, routing string) *document {
	g := k.gate.Load()
	return &document{index: g.alias, horizon: g.horizon, id: id, routing: routing, keeper: k}
}

// slot is what a document holds about one cell.
type slot struct {
	name string // the cell's name, made by slotName
	key  replicator.Key
	judge.Known
	barren bool     // the cell waits until another source's row is deleted, but its own contribution can't be stored
	fields [][]byte // JSON texts in the order of the view's fields; nil for a missing field
}

// gone reports whether the cell's row is gone at the source, as far as the document knows.
func (s *slot) gone() bool { return s.State.Version == replicator.NoVersion }

// field returns the cell's value for the view's i-th field, or nil if the cell doesn't show one.
func (s *slot) field(i int) []byte {
	if !s.Shown || s.fields == nil {
		return nil
	}
	return s.fields[i]
}

// contents are the cells of a document. Before a write they are sorted in merge order: a field's value comes from the
// first cell that has the field.
type contents []*slot

func (c contents) find(name string) *slot {
	for _, s := range c {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (c contents) known(name string) judge.Known {
	if s := c.find(name); s != nil {
		return s.Known
	}
	return judge.Unseen
}

// set adds a cell, or replaces the cell with the same name.
func (c contents) set(s *slot) contents {
	for i := range c {
		if c[i].name == s.name {
			c[i] = s
			return c
		}
	}
	return append(c, s)
}

// sort puts cells into merge order, the order in which a view takes fields from them. It does not compare keys, because
// the same key may have different types at several sources. Cells that differ only in their source are sorted by the
// source's name.
func (k *keeper) sort(c contents) {
	slices.SortFunc(c, func(a, b *slot) int {
		_, first, _ := cellOf(a.name, "")
		_, second, _ := cellOf(b.name, "")
		return cmp.Or(judge.Order(k.view, first, second), cmp.Compare(a.name, b.name))
	})
}

// slotName returns a cell's name within a document: TABLE.COLUMN, with @SOURCE if there are shards. Documents store the
// name, so its form must not change.
func slotName(source string, c replicator.Cell) string {
	name := url.QueryEscape(c.Table) + "." + url.QueryEscape(c.Column)
	if source != "" {
		name += "@" + url.QueryEscape(source)
	}
	return name
}

// cellOf returns the source and the cell that a name made by slotName stands for. ok is false if the name has a
// different form.
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

// storedState is the form of the state in a document. Its names are short because every document carries them.
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
	Fields  map[string]json.RawMessage `json:"f"` // if cells share a document: the contribution
}

func (d *document) contents() contents {
	if !d.exists {
		return nil
	}
	return d.keeper.parse(d.source)
}

// parse reads a document's state, and the cells' contributions if several cells may share a document. If a user has
// made the state unreadable, parse returns no cells, and the next op of any of the cells replaces the document.
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

// readState reads the state in a document's source. It first tries only the text from the field's name to the closing
// brace, because render writes the state last. That costs a third of decoding the whole document.
func readState(source []byte) (state storedState, err error) {
	const name = `"` + stateField + `":`
	if at := bytes.LastIndex(source, []byte(name)); at > 0 && source[at-1] != '\\' && source[len(source)-1] == '}' {
		s := newScanner(source[at+len(name) : len(source)-1])
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

// complete reads the fields of a cell from the document that holds only this cell. They are needed to write the
// document again with a new state and unchanged fields.
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
		if bytes.IndexByte(v, '\n') >= 0 { // a user wrote the document; a newline would end an item of a bulk request
			var line bytes.Buffer
			if json.Compact(&line, v) == nil {
				v = line.Bytes()
			}
		}
		fields[i] = v
	}
	return fields
}

// maxDepth limits the nesting of a value. The server's parser allows 1000 levels, including the document's own.
const maxDepth = 500

// contribution converts an entry's fields to JSON texts. Its error says what can't be stored.
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

// render appends the document, a JSON object on one line: the merged fields, then the state.
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
