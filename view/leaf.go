package view

import (
	"fmt"
	"reflect"
)

// leaf is one value of an entry, given by a path or an expression.
type leaf struct {
	text string

	ref  ref
	expr *expression // if expr is set, it is used instead of ref
	list bool        // the path has [], and the value is a list of everything that the path finds

	loop int    // index (in the view's loops) of the list whose element contains the value; -1: none
	step []step // the steps of the path from that element to the value; nil if there is no such list
}

// loop is a list whose elements each make an entry. Paths through the same list share a loop, so that their values stay
// together. Two different lists make an entry for each pair of their elements.
type loop struct {
	text   string
	parent int         // index of the outer list, whose elements contain this list; -1: none
	ref    ref         // the path to this list; unused if there is an expression or an outer list
	expr   *expression // the expression that computes this list; nil: a path leads to it
	step   []step      // the steps from an element of the outer list to this list; unused without an outer list
}

// value returns a leaf's value, or nil if it is missing or null.
func (s *scope) value(l *leaf) (v any, err error) {
	switch {
	case l.loop >= 0:
		v = walk(s.bound[l.loop], l.step)
	case l.expr != nil:
		v, err = s.run(l.expr)
	case l.list:
		v, err = s.all(&l.ref)
	default:
		v, err = s.lookup(&l.ref)
	}
	if err == nil {
		err = readable(v)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.text, err)
	}
	return v, nil
}

// all returns the list of everything that a path with [] finds, or nil if the value before the [] is missing.
func (s *scope) all(r *ref) (any, error) {
	v, err := s.start(r)
	if err != nil {
		return nil, err
	}
	list, ok, err := collect([]any{}, v, r.step)
	if !ok || err != nil {
		return nil, err
	}
	return list, nil
}

// elements returns the elements of a loop's list. It is only for a list that is not inside another loop's element.
func (s *scope) elements(l *loop) ([]any, error) {
	var v any
	var err error
	if l.expr != nil {
		v, err = s.run(l.expr)
		if _, isList := v.([]any); v != nil && !isList {
			v = []any{v} // an expression may return a single value
		}
	} else {
		v, err = s.lookup(&l.ref)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.text, err)
	}
	list, _, err := elementsOf(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.text, err)
	}
	return list, nil
}

// leafCompiler compiles the paths and expressions of one view.
type leafCompiler struct {
	*binder
	loops []loop
	ids   map[string]int // indexes in `loops`, by the path or expression that gives the list
	split bool           // each element that [] finds makes an entry; false: [] gives one list
}

func (c *leafCompiler) compile(text string) (leaf, error) {
	if text != "" && text[0] == '=' {
		e, err := compileExpression(text[1:], reflect.Invalid, c.resolve)
		if err != nil {
			return leaf{}, err
		}
		if !c.split {
			return leaf{text: text, expr: e, loop: -1}, nil
		}
		return leaf{text: text, loop: c.loop(text, loop{text: text, parent: -1, expr: e})}, nil
	}
	p, err := parsePath(text)
	if err != nil {
		return leaf{}, err
	}
	return c.path(p)
}

// path compiles a path. If the view makes an entry for each element of a list, each [] in the path becomes a loop.
func (c *leafCompiler) path(p path) (leaf, error) {
	r, err := c.resolve(p)
	if err != nil {
		return leaf{}, err
	}
	l := leaf{text: p.text, ref: r, loop: -1}
	if !p.each() {
		return l, nil
	}
	if !c.split {
		l.list = true
		return l, nil
	}
	from := 0
	for i, s := range r.step {
		if s.kind != stepEach {
			continue
		}
		next := loop{text: p.text, parent: l.loop, step: r.step[from:i]}
		if l.loop < 0 {
			next.ref = ref{text: p.text, join: r.join, root: r.root, step: r.step[:i], each: true}
		}
		l.loop = c.loop(fmt.Sprint(r.join, r.root, r.step[:i]), next)
		from = i + 1
	}
	l.step = r.step[from:]
	return l, nil
}

// loop returns the index of a loop, and adds the loop if it is new. A loop over a nested list comes after the loop over
// the outer list.
func (c *leafCompiler) loop(id string, l loop) int {
	if i, ok := c.ids[id]; ok {
		return i
	}
	c.loops = append(c.loops, l)
	c.ids[id] = len(c.loops) - 1
	return c.ids[id]
}
