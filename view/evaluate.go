package view

import (
	"errors"
	"fmt"
	"sync"

	"replicator"
)

// Evaluator computes the contributions of rows to the views that were compiled together. It is safe for concurrent
// use.
type Evaluator struct {
	tables map[string]*tablePlans // by table name; never changed after Compile
	scopes sync.Pool
}

var _ replicator.Evaluator = (*Evaluator)(nil)

type tablePlans struct {
	columns map[string]*plan // by Cell.Column, for each value that is the Column of a view's Feed
	others  *plan            // for cells whose Cell.Column has any other value
}

// maxEntries limits the entries that one row can make in one view.
const maxEntries = 10_000

// Evaluate returns one Value for each view that the cell feeds. If the cell is gone (nil row), every Value is empty.
func (e *Evaluator) Evaluate(cell replicator.Cell, row *replicator.Row) []replicator.Value {
	plans := e.tables[cell.Table]
	if plans == nil {
		return nil
	}
	p := plans.columns[cell.Column]
	if p == nil {
		p = plans.others
	}
	if len(p.feeds) == 0 {
		return nil
	}
	s, _ := e.scopes.Get().(*scope)
	if s == nil {
		s = &scope{}
	}
	values := s.values(p, cell, row)
	e.scopes.Put(s)
	return values
}

// values returns a row's contributions to the plan's views, in the scope's memory.
func (s *scope) values(p *plan, cell replicator.Cell, row *replicator.Row) []replicator.Value {
	values := s.memory.values.take(len(p.feeds))[:len(p.feeds)]
	for i, f := range p.feeds {
		values[i].View = f.view
	}
	switch {
	case row == nil:
	case row.Err != nil:
		for i, f := range p.feeds {
			values[i].Err = fmt.Errorf("view %s: %w", f.name, row.Err)
		}
	default:
		s.evaluate(p, cell, row, values)
		if large(row, values) {
			s.memory = memory{}
		}
	}
	return values
}

func (s *scope) evaluate(p *plan, cell replicator.Cell, row *replicator.Row, values []replicator.Value) {
	s.reset(p, cell, row)
	out := output{
		entries: s.memory.entries.take(len(p.feeds)),
		fields:  s.memory.fields.take(p.fields),
	}
	for i, f := range p.feeds {
		entries, err := s.contribute(f, &out)
		switch {
		case err == nil:
			values[i].Entries = entries
		case s.bodyErr != nil && errors.Is(err, s.bodyErr): // the body itself is bad: don't name a field
			values[i].Err = fmt.Errorf("view %s: %w", f.name, s.bodyErr)
		default:
			values[i].Err = fmt.Errorf("view %s: %w", f.name, ofJoinedRow(err))
		}
	}
	s.release()
}

type memory struct {
	values  slab[replicator.Value]
	entries slab[replicator.Entry]
	fields  slab[any]
}

// slab hands out parts of larger allocations, and never reuses a part. An allocation stays in memory while any of its
// parts is in use, so the evaluator drops a slab after a large contribution.
type slab[T any] struct {
	rest []T
	size int // the number of elements in the last allocation
}

// slabSize is the most elements that a slab allocates at once. If more are requested, it allocates exactly as many as
// requested.
const slabSize = 64

// take returns an empty slice with capacity n. The elements up to the capacity are zero.
func (s *slab[T]) take(n int) []T {
	if n > len(s.rest) {
		s.size = max(n, min(2*s.size, slabSize))
		s.rest = make([]T, s.size)
	}
	part := s.rest[:0:n]
	s.rest = s.rest[n:]
	return part
}

// large reports whether a row's contributions are too large to share an allocation with those of other rows. Shared
// memory is freed only once no row uses it. The body counts, because texts may be parts of it.
func large(row *replicator.Row, values []replicator.Value) bool {
	const largeBody, largeValue = 4 << 10, 4 << 10 // in bytes; largeValue is multiplied by the number of views
	size := int64(0)
	for i := range values {
		size += values[i].Size()
	}
	bodies := len(row.Body)
	for _, rows := range row.Joined {
		for _, joined := range rows {
			bodies += len(joined.Body)
		}
	}
	return bodies > largeBody || size > largeValue*int64(len(values))
}

// output is the memory that the entries of one row share.
type output struct {
	entries []replicator.Entry
	fields  []any
	seen    map[string]struct{} // encoded entries that the view has so far; nil if the view loops over no list
}

func (s *scope) contribute(f *feed, out *output) ([]replicator.Entry, error) {
	if f.joins && s.row.Joined == nil {
		return nil, errNotJoined
	}
	if f.where != nil {
		if ok, err := s.test(f.where); err != nil {
			return nil, fmt.Errorf("where: %w", err)
		} else if !ok {
			return nil, nil
		}
	}
	from := len(out.entries)
	if f.whole {
		entry, err := s.wholeRow()
		if err != nil {
			return nil, err
		}
		out.entries = append(out.entries, entry)
		return out.entries[from:len(out.entries):len(out.entries)], nil
	}
	out.seen = nil
	if len(f.loops) == 0 {
		if err := s.entry(f, out); err != nil {
			return nil, err
		}
	} else {
		out.seen = make(map[string]struct{})
		s.lists = resize(s.lists, len(f.loops))
		s.bound = resize(s.bound, len(f.loops))
		for i := range f.loops {
			if l := &f.loops[i]; l.parent < 0 {
				var err error
				if s.lists[i], err = s.elements(l); err != nil {
					return nil, err
				}
			}
		}
		made := 0
		if err := s.loop(f, 0, out, &made); err != nil {
			return nil, err
		}
	}
	if from == len(out.entries) {
		return nil, nil
	}
	return out.entries[from:len(out.entries):len(out.entries)], nil
}

// wholeRow returns the entry of a view of whole rows. If the body can't be decoded, the entry has only the row with the
// body's stored bytes.
func (s *scope) wholeRow() (replicator.Entry, error) {
	row := s.row
	if row.Body != nil && row.Text != nil {
		rendered := *row
		rendered.Text = nil
		var err error
		if rendered.Body, err = row.Text(row.Body); err != nil {
			return replicator.Entry{}, fmt.Errorf("the body can't be rendered: %w", err)
		}
		row = &rendered
	}
	e := replicator.Entry{Row: row}
	if row.Body != nil && s.plan.whole != nil {
		if document, err := s.plan.whole(row.Body); err == nil {
			e.Fields = []any{document}
		}
	}
	return e, nil
}

// loop makes one entry for each combination of elements of the view's lists. It goes through the elements of list i,
// and for each of them through the elements of the lists after it.
func (s *scope) loop(f *feed, i int, out *output, made *int) error {
	if i == len(f.loops) {
		if *made++; *made > maxEntries {
			return fmt.Errorf("the cell's lists combine to more than %d entries", maxEntries)
		}
		return s.entry(f, out)
	}
	list := s.lists[i]
	if l := &f.loops[i]; l.parent >= 0 {
		var err error
		if list, _, err = elementsOf(walk(s.bound[l.parent], l.step)); err != nil {
			return fmt.Errorf("%s: %w", l.text, err)
		}
	}
	for _, element := range list {
		s.bound[i] = element
		if err := s.loop(f, i+1, out, made); err != nil {
			return err
		}
	}
	return nil
}

// entry appends the entry for the current element of each list that the view loops over. It appends nothing if a
// required value is missing.
func (s *scope) entry(f *feed, out *output) error {
	from := len(out.fields)
	for i := range f.fields {
		v, err := s.field(f, i)
		if err != nil {
			return err
		}
		if v == nil && f.split {
			out.fields = out.fields[:from]
			return nil
		}
		out.fields = append(out.fields, v)
	}
	e := replicator.Entry{Fields: out.fields[from:len(out.fields):len(out.fields)]}
	ok := true
	var err error
	if f.key != nil {
		if e.Key, ok, err = s.render(f.key); err != nil {
			return fmt.Errorf("key: %w", err)
		}
	}
	if f.member != nil && ok {
		if e.Member, ok, err = s.render(f.member); err != nil {
			return fmt.Errorf("member: %w", err)
		}
	}
	if !ok || out.seen != nil && !s.unseen(&e, out) {
		out.fields = out.fields[:from]
		return nil
	}
	out.entries = append(out.entries, e)
	return nil
}

// unseen reports whether e differs from the view's earlier entries, and records e.
func (s *scope) unseen(e *replicator.Entry, out *output) bool {
	b := appendIdentity(appendIdentity(s.identity[:0], e.Key), e.Member)
	for _, v := range e.Fields {
		b = appendIdentity(b, v)
	}
	s.identity = b
	if _, ok := out.seen[string(b)]; ok {
		return false
	}
	out.seen[string(b)] = struct{}{}
	return true
}

// field returns the value of a field. It returns an error if a view of this kind can't hold the value.
func (s *scope) field(f *feed, i int) (any, error) {
	l := &f.fields[i]
	if f.sum && i == len(f.fields)-1 {
		return s.amount(l)
	}
	v, err := s.value(l)
	if err != nil {
		return nil, err
	}
	if f.split && !scalar(v) {
		return nil, notScalar(l, v)
	}
	return v, nil
}

func notScalar(l *leaf, v any) error {
	if _, isList := v.([]any); isList {
		return fmt.Errorf("%s is a list, which an index can't hold. Write %s[] for an entry of each "+
			"element", l.text, l.text)
	}
	return fmt.Errorf("%s is an object, which an index can't hold. Name a property in it", l.text)
}

// amount returns what a row adds to a counter or a ranking, or nil if the amount is missing.
func (s *scope) amount(l *leaf) (any, error) {
	if l.text == "" {
		return int64(1), nil // without a sum, the view counts rows
	}
	v, err := s.value(l)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case nil, int64, uint64, float64, replicator.Number:
		return v, nil
	}
	return nil, fmt.Errorf("sum: %s is %s, not a number", l.text, sortOf(v))
}
