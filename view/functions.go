package view

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"

	"replicator"
	"replicator/internal/uuid"
)

// byteFunction is a function for expressions whose argument is bytes: a binary value, the UTF-8 of a text, or the
// digits of a number.
type byteFunction struct {
	of  func(b []byte, binary bool) (any, error) // binary: b is a binary value
	typ any
}

// byteFunctions returns the functions that this package adds to expr's own.
func byteFunctions() map[string]byteFunction {
	text := func(f func(b []byte) string) byteFunction {
		return byteFunction{func(b []byte, _ bool) (any, error) { return f(b), nil }, new(func(any) string)}
	}
	return map[string]byteFunction{
		"sha256": text(func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }),
		"md5":    text(func(b []byte) string { sum := md5.Sum(b); return hex.EncodeToString(sum[:]) }),
		"hex":    text(hex.EncodeToString),
		"base64": text(base64.StdEncoding.EncodeToString),
		"crc32": {func(b []byte, _ bool) (any, error) { return int(crc32.ChecksumIEEE(b)), nil },
			new(func(any) int)},
		"unhex": {unhex, new(func(any) any)},
		"uuid":  {uuidOf, new(func(any) string)},
	}
}

func addByteFunctions(c *conf.Config) {
	for name, f := range byteFunctions() {
		expr.Function(name, func(args ...any) (any, error) {
			b, binary, err := bytesOf(args[0])
			if err != nil {
				return nil, fmt.Errorf("invalid argument for %s (%w)", name, err)
			}
			if b == nil {
				return nil, nil
			}
			v, err := f.of(b, binary)
			if err != nil {
				return nil, fmt.Errorf("invalid argument for %s (%w)", name, err)
			}
			return v, nil
		}, f.typ)(c)
	}
}

// bytesOf returns a value's bytes, or nil if the value is missing.
func bytesOf(v any) (b []byte, binary bool, err error) {
	b = []byte{}
	switch v := v.(type) {
	case nil:
		return nil, false, nil
	case []byte:
		return append(b, v...), true, nil
	case string:
		return append(b, v...), false, nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), false, nil
	case exact:
		return append(b, v.String()...), false, nil
	case int64, uint64, float64, replicator.Number:
		return replicator.AppendValue(b, v), false, nil
	}
	if shown, err := fromExpr(v); err == nil {
		v = shown
	}
	return nil, false, fmt.Errorf("%s is not a text, a number or a binary value", sortOf(v))
}

func unhex(digits []byte, binary bool) (any, error) {
	if binary {
		return nil, errors.New("a binary value is not a text of hexadecimal digits")
	}
	b, err := hex.AppendDecode([]byte{}, digits)
	if err != nil {
		return nil, errors.New("the text is not an even number of hexadecimal digits")
	}
	return b, nil
}

func uuidOf(b []byte, binary bool) (any, error) {
	if !binary {
		parsed, ok := uuid.Parse(string(b))
		if !ok {
			return nil, errors.New("the text is not a UUID's 32 hexadecimal digits")
		}
		b = parsed
	}
	if len(b) != 16 {
		return nil, fmt.Errorf("a UUID has 16 bytes, but the value has %d", len(b))
	}
	return uuid.Text(b), nil
}

// unconverted marks the paths that are arguments of functions such as sha256, so that those functions get the bytes of
// a binary value. Elsewhere in an expression, a binary value becomes hexadecimal digits.
func (r *rewriter) unconverted(n *ast.Node) {
	call, ok := (*n).(*ast.CallNode)
	if !ok {
		return
	}
	callee, ok := call.Callee.(*ast.IdentifierNode)
	if !ok || r.ofBytes[callee.Value].of == nil {
		return
	}
	for i := range call.Arguments {
		r.leaveValue(&call.Arguments[i])
	}
}

// leaveValue marks the references whose value can become the value of n, such as both sides of a ??. Their binary
// values are then not converted to hexadecimal digits.
func (r *rewriter) leaveValue(n *ast.Node) {
	switch node := (*n).(type) {
	case *ast.ConditionalNode:
		r.leaveValue(&node.Exp1)
		r.leaveValue(&node.Exp2)
	case *ast.BinaryNode:
		if node.Operator == "??" {
			r.leaveValue(&node.Left)
			r.leaveValue(&node.Right)
		}
	case *ast.IdentifierNode:
		ref := r.refs[node]
		if ref == nil || ref.asIs {
			return
		}
		name := "as it is: " + ref.name
		own := r.byName[name]
		if own == nil {
			own = &treeRef{name: name, path: ref.path, asIs: true}
			r.byName[name] = own
		}
		own.guarded = own.guarded || ref.guarded
		id := &ast.IdentifierNode{Value: name}
		ast.Patch(n, id)
		r.refs[id] = own
	}
}
