package view

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"replicator"
	"replicator/internal/keytemplate"
)

// path is a parsed path: "address.city", "tags[]", "lines[0].sku", "$row_key", `"a.b".c`.
type path struct {
	text string
	own  bool   // the path starts with $, so root is a column of the row
	root string // the first name of the path, without $
	step []step // the steps after the root
}

// step leads from a value to a value inside it.
type step struct {
	kind  stepKind
	name  string // the member's name, if the step leads to a member of an object
	index int    // the element's index, if the step leads to one element of a list
}

type stepKind uint8

const (
	stepName  stepKind = iota // a member of an object
	stepIndex                 // an element of a list
	stepEach                  // every element of a list
)

// parsePath parses a path. A name needs double quotes if it contains one of . [ ] " or starts with $ or =. In quotes, a
// backslash escapes a quote or a backslash.
func parsePath(text string) (path, error) {
	p := path{text: text}
	rest := text
	if strings.HasPrefix(rest, "$") {
		p.own = true
		rest = rest[1:]
	}
	var err error
	if p.root, rest, err = keytemplate.CutName(rest); err != nil {
		return p, fmt.Errorf("path %s: %w", text, err)
	}
	for rest != "" {
		var s step
		switch rest[0] {
		case '.':
			s.name, rest, err = keytemplate.CutName(rest[1:])
		case '[':
			s, rest, err = cutBracket(rest)
		default:
			err = fmt.Errorf("expected a dot or a bracket, and found %q", rest)
		}
		if err != nil {
			return p, fmt.Errorf("path %s: %w", text, err)
		}
		p.step = append(p.step, s)
	}
	return p, nil
}

func cutBracket(s string) (step, string, error) {
	inside, rest, ok := strings.Cut(s[1:], "]")
	if !ok {
		return step{}, "", errors.New("a bracket is not closed")
	}
	if inside == "" {
		return step{kind: stepEach}, rest, nil
	}
	n, err := strconv.Atoi(inside)
	if err != nil || n < 0 || inside != strconv.Itoa(n) {
		return step{}, "", fmt.Errorf("[%s] is not an index. Write [] for every element or [0] for the first", inside)
	}
	return step{kind: stepIndex, index: n}, rest, nil
}

// each reports whether the path goes through every element of a list.
func (p path) each() bool {
	for _, s := range p.step {
		if s.kind == stepEach {
			return true
		}
	}
	return false
}

// walk follows the steps of a path, none of which is [], from the value v. It returns nil if a step finds nothing. If
// it meets an Unread, which replaces a value that no view can hold, it returns the Unread.
func walk(v any, steps []step) any {
	for _, s := range steps {
		if _, unread := v.(replicator.Unread); unread {
			return v
		}
		switch s.kind {
		case stepName:
			o, _ := v.(replicator.Object)
			v = o.Get(s.name)
		case stepIndex:
			list, _ := v.([]any)
			if s.index >= len(list) {
				return nil
			}
			v = list[s.index]
		}
		if v == nil {
			return nil
		}
	}
	return v
}

// collect follows steps through all elements of lists, and appends the values that it finds to found. ok is false if
// the value before the first [] is missing.
func collect(found []any, v any, steps []step) (list []any, ok bool, err error) {
	for i, s := range steps {
		if s.kind != stepEach {
			continue
		}
		elements, ok, err := elementsOf(walk(v, steps[:i]))
		for _, e := range elements {
			if found, _, err = collect(found, e, steps[i+1:]); err != nil {
				return nil, false, err
			}
		}
		return found, ok, err
	}
	if v = walk(v, steps); v != nil {
		found = append(found, v)
	}
	return found, true, nil
}

// elementsOf returns the elements of the value before a []. ok is false if the value is missing.
func elementsOf(v any) (list []any, ok bool, err error) {
	if v == nil {
		return nil, false, nil
	}
	if list, ok = v.([]any); ok {
		return list, true, nil
	}
	return nil, false, fmt.Errorf("the value before [] is %s, not a list", sortOf(v))
}
