package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// kind is a TOML type, in the words of error messages.
type kind string

const (
	aTable   kind = "a table"
	aList    kind = "a list"
	aText    kind = "a string"
	aNumber  kind = "an integer"
	aReal    kind = "a decimal number"
	aBoolean kind = "true or false"
	aDate    kind = "a date or time"

	unusable kind = "a string that can't be used" // it names a missing environment variable, for example
)

// node is a value of the file with its line. A table keeps its keys in the order of the file, because columns, shards
// and views have that order. Go maps, which go-toml's own decoder uses, would lose the order.
type node struct {
	kind  kind
	line  int
	text  string // text of a scalar, with environment variables replaced
	items []*node

	names  []string // keys of a TOML table, in the order of the file
	fields map[string]*node
	closed bool // set for a table that nothing may be added to, because it is written as { … } or its [header] was seen
}

func newTable(line int) *node { return &node{kind: aTable, line: line, fields: map[string]*node{}} }

func (n *node) set(name string, value *node) {
	n.names = append(n.names, name)
	n.fields[name] = value
}

type tree struct {
	l      *loader
	parser unstable.Parser
	data   []byte
	line   int // line of the current expression; used for nodes whose own line the parser doesn't report
}

// parse returns the file's root table. After a syntax error the rest of the file is not read.
func (l *loader) parse(data []byte) *node {
	t := &tree{l: l, data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}
	t.parser.Reset(t.data)
	root := newTable(0)
	at, path := root, ""
	for t.parser.NextExpression() {
		switch e := t.parser.Expression(); e.Kind {
		case unstable.Table:
			at, path = t.header(root, e)
		case unstable.ArrayTable:
			keys := t.keys(e)
			l.problem(t.line, strings.Join(keys, "."), "[[…]] is not used in this file; write [%s]", strings.Join(keys, "."))
			at, path = newTable(t.line), strings.Join(keys, ".")
		case unstable.KeyValue:
			t.keyValue(at, path, e)
		}
	}
	if err := t.parser.Error(); err != nil {
		var at *unstable.ParserError
		line := t.line
		if errors.As(err, &at) {
			line = t.lineOf(at.Highlight, line)
		}
		// The message can be shown, because it quotes at most one unexpected character, and so no secret.
		l.problem(line, "", "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	return root
}

// lineOf returns the line of b in the file. If b is not part of the file's data, lineOf returns the parameter line.
func (t *tree) lineOf(b []byte, line int) (found int) {
	defer func() {
		if recover() != nil { // Parser.Range panics if b is outside of the data, such as for an error at the file's end
			found = line
		}
	}()
	return t.parser.Shape(t.parser.Range(b)).Start.Line
}

func (t *tree) lineAt(offset uint32) int {
	return bytes.Count(t.data[:min(int(offset), len(t.data))], []byte{'\n'}) + 1
}

// keys returns the parts of the key in a TOML expression ([a.b] or a.b = 1), and records the expression's line.
func (t *tree) keys(e *unstable.Node) []string {
	var keys []string
	for it := e.Key(); it.Next(); {
		if len(keys) == 0 {
			t.line = t.lineAt(it.Node().Raw.Offset)
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys
}

func (t *tree) header(root *node, e *unstable.Node) (*node, string) {
	keys := t.keys(e)
	path := strings.Join(keys, ".")
	at, ok := t.descend(root, "", keys)
	switch {
	case !ok:
		return newTable(t.line), path
	case at.closed:
		t.l.problem(t.line, path, "defined twice: the first is on line %d", at.line)
		return newTable(t.line), path
	}
	at.closed, at.line = true, t.line
	return at, path
}

// descend follows keys down from a table, and creates missing tables.
func (t *tree) descend(at *node, path string, keys []string) (*node, bool) {
	for _, key := range keys {
		path = under(path, key)
		next := at.fields[key]
		if next == nil {
			next = newTable(t.line)
			at.set(key, next)
		}
		if next.kind != aTable {
			t.l.problem(t.line, path, "is %s on line %d, and can't be a table too", next.kind, next.line)
			return nil, false
		}
		at = next
	}
	return at, true
}

func (t *tree) keyValue(at *node, path string, e *unstable.Node) {
	keys := t.keys(e)
	line := t.line
	last := keys[len(keys)-1]
	at, ok := t.descend(at, path, keys[:len(keys)-1])
	if !ok {
		return
	}
	path = under(path, strings.Join(keys, "."))
	value := t.value(path, e.Value())
	if before := at.fields[last]; before != nil {
		t.l.problem(line, path, "given twice: the first is on line %d", before.line)
		return
	}
	at.set(last, value)
}

func (t *tree) value(path string, e *unstable.Node) *node {
	n := &node{line: t.line, text: string(e.Data)}
	switch e.Kind {
	case unstable.String:
		n.kind, n.line = aText, t.lineAt(e.Raw.Offset)
		text, err := expand(n.text, t.l.env)
		if err != nil {
			if !errors.Is(err, errUnset) || !t.l.leavesOut(path) {
				t.l.problem(n.line, path, "%s", err)
			}
			n.kind = unusable
		}
		n.text = text
	case unstable.Bool:
		n.kind = aBoolean
	case unstable.Integer:
		n.kind = aNumber
	case unstable.Float:
		n.kind = aReal
	case unstable.Array:
		n.kind = aList
		for it := e.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				n.items = append(n.items, t.value(fmt.Sprintf("%s[%d]", path, len(n.items)), it.Node()))
			}
		}
	case unstable.InlineTable:
		n = newTable(t.line)
		for it := e.Children(); it.Next(); {
			t.keyValue(n, path, it.Node())
		}
		n.closed = true
	default:
		n.kind = aDate
	}
	return n
}

func under(path, key string) string {
	switch {
	case path == "":
		return key
	case key == "":
		return path
	}
	return path + "." + key
}
