package view

import (
	"fmt"

	"github.com/expr-lang/expr/vm"

	"replicator"
)

// root is where a path starts: a property of the body, a column of the row, or a join.
type root struct {
	kind rootKind
	at   int // index in the plan's names, the key's values or the plan's columns, depending on kind
	name string

	optional bool // the row may lack the column; the value is then missing
}

type rootKind uint8

const (
	rootMember  rootKind = iota // a property of the body
	rootKey                     // a key column; its value comes from Cell.Key
	rootCell                    // the column that has the role `column`; its value comes from Cell.Column
	rootVersion                 // the version column; its value comes from the row's columns, or from Row.Version
	rootColumn                  // a column that is none of the above
	rootObject                  // the one row that a join finds, as a whole
	rootList                    // the list of all rows that a join finds
)

// ref is a compiled path.
type ref struct {
	text string
	join int // 1 + the index of the join that the path leads into; 0: the view's own row
	root root
	step []step
	each bool // the path leads to a list whose elements each make an entry
}

// scope is the state of one row's evaluation. Scopes are reused. After the evaluation, only the contributions may still
// refer to the scope's memory.
type scope struct {
	memory memory

	plan *plan
	cell replicator.Cell
	row  *replicator.Row

	members []any // the values of the needed properties of the body
	bodyErr error

	key     []any // the values of Cell.Key; empty until they are needed
	parsed  []any // decoded JSON columns, by index in the plan's columns
	isRead  []bool
	env     map[string]any
	machine vm.VM
	joined  []joined // the state of each of the plan's joins

	lists    [][]any // the elements of each list that the view loops over; unset for a list inside another one
	bound    []any   // the current element of each list that the view loops over
	identity []byte  // buffer for bytes that identify an entry, to find equal entries
	text     []byte  // buffer for a key or member
	shown    []byte  // buffer for a value of the key, before it is percent-encoded
}

// reset prepares the scope for a row. It decodes the row's body once for all views.
func (s *scope) reset(p *plan, cell replicator.Cell, row *replicator.Row) {
	s.plan, s.cell, s.row, s.key = p, cell, row, s.key[:0]
	for len(s.joined) < len(p.joins) {
		s.joined = append(s.joined, joined{})
	}
	s.parsed = resize(s.parsed, len(p.columns))
	s.isRead = resize(s.isRead, len(p.columns))
	s.members = resize(s.members, len(p.names))
	s.bodyErr = nil
	if p.decoder != nil {
		s.bodyErr = s.decode()
	}
}

// release drops the references to a row and its values. Otherwise the pool of scopes would keep them in memory.
func (s *scope) release() {
	clear(s.members)
	clear(s.parsed)
	clear(s.env)
	clear(s.lists[:cap(s.lists)])
	clear(s.bound[:cap(s.bound)])
	clear(s.machine.Stack[:cap(s.machine.Stack)])
	clear(s.machine.Variables)
	clear(s.key)
	s.plan, s.row, s.key, s.cell, s.bodyErr = nil, nil, s.key[:0], replicator.Cell{}, nil
	for i := range s.joined {
		if j := &s.joined[i]; j.isRead {
			j.scope.release()
			*j = joined{scope: j.scope}
		}
	}
}

func resize[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// body returns the row's body in the form that its codec reads. It returns nil for NULL, which counts as a body without
// properties.
func (s *scope) body() ([]byte, error) {
	body := s.row.Body
	if body == nil || s.row.Text == nil {
		return body, nil
	}
	body, err := s.row.Text(body)
	if err != nil {
		return nil, fmt.Errorf("the body can't be rendered: %w", err)
	}
	return body, nil
}

func (s *scope) decode() error {
	body, err := s.body()
	if err != nil || body == nil {
		return err
	}
	if err := s.plan.decoder.Decode(body, s.members); err != nil {
		return fmt.Errorf("the body can't be decoded: %w", err)
	}
	return nil
}

// lookup returns the value that a compiled path without [] leads to, or nil if the value is missing or null.
func (s *scope) lookup(r *ref) (any, error) {
	v, err := s.start(r)
	if err != nil || len(r.step) == 0 {
		return v, err
	}
	return walk(v, r.step), nil
}

// start returns the value that a compiled path starts with, before its steps.
func (s *scope) start(r *ref) (any, error) {
	if r.join > 0 {
		return s.startJoined(r)
	}
	return s.startOwn(r)
}

// startOwn returns the value that a compiled path starts with, before its steps. It ignores joins: the path starts in
// the row that the scope evaluates.
func (s *scope) startOwn(r *ref) (any, error) {
	switch r.root.kind {
	case rootMember:
		return s.members[r.root.at], s.bodyErr
	case rootCell:
		if s.row != nil && s.row.ColumnAs != "" {
			return s.row.ColumnAs, nil
		}
		return s.cell.Column, nil
	case rootKey:
		if len(s.key) == 0 {
			var err error
			if s.key, err = s.cell.Key.AppendValues(s.key); err != nil {
				return nil, err
			}
		}
		if r.root.at >= len(s.key) {
			return nil, fmt.Errorf("the cell's key has %d values, and lacks column %s", len(s.key), r.root.name)
		}
		return s.keyValue(r.root), nil
	}
	v, ok := s.column(r.root)
	if !ok {
		if r.root.kind == rootVersion {
			return s.row.Version, nil
		}
		if r.root.optional {
			return nil, nil
		}
		return nil, fmt.Errorf("the row has no column %s", r.root.name)
	}
	return s.walkable(r, v)
}

// keyValue returns a value of the row's key. A Key holds a DECIMAL as text, so keyValue returns the number from the
// row instead.
func (s *scope) keyValue(r root) any {
	v := s.key[r.at]
	if text, ok := v.(string); ok && s.row != nil && text != "" && (text[0] == '-' || text[0]-'0' <= 9) {
		column, _ := s.column(root{name: r.name})
		if number, ok := column.(replicator.Number); ok {
			return number
		}
	}
	return v
}

// column returns a column's value. It first tries the index at which readers usually put the column.
func (s *scope) column(r root) (any, bool) {
	names := s.row.Names
	if r.at < len(names) && names[r.at] == r.name && r.at < len(s.row.Columns) {
		return s.row.Columns[r.at], true
	}
	for i, name := range names {
		if name == r.name && i < len(s.row.Columns) {
			return s.row.Columns[i], true
		}
	}
	return nil, false
}

// walkable returns a column's value, and decodes JSON once per row. It decodes a text column only if the path leads
// into the text, because MariaDB's binlog can't tell JSON from LONGTEXT.
func (s *scope) walkable(r *ref, v any) (any, error) {
	var text []byte
	switch v := v.(type) {
	case replicator.RawJSON:
		text = v
	case string:
		if len(r.step) == 0 && !r.each {
			return v, nil
		}
		text = []byte(v)
	case []byte:
		if len(r.step) == 0 && !r.each {
			return v, nil
		}
		text = v
	default:
		return v, nil
	}
	if s.isRead[r.root.at] {
		return s.parsed[r.root.at], nil
	}
	doc, err := s.plan.json(text)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", r.root.name, err)
	}
	s.parsed[r.root.at], s.isRead[r.root.at] = doc, true
	return doc, nil
}
