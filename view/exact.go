package view

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm/runtime"
	"github.com/shopspring/decimal"

	"replicator"
)

// expr calculates with int and float64. Integers beyond int64 and decimals of more than some 15 digits are neither, and
// views hold them exactly. So where an int or a float64 says what a number is, digit for digit, it is one, and else an
// exact: it passes through an expression (x ?? 0, a ? x : y) as it is, and its operators calculate with all digits. A
// function that it is given to, and that knows ints and floats alone, fails, which makes the value a dead letter.
//
// The operators are functions of this file where an operand may be a number of the row. Two floats are added,
// subtracted and multiplied as the decimals that they say (0.1 * 3 is 0.3); the result is a float, the nearest one
// where none says it. Integers don't wrap around. Division is expr's, of floats.

// exact is a number that is neither an int nor a float64.
type exact struct{ decimal.Decimal }

// String is what string() shows: all digits.
func (e exact) String() string { return e.Decimal.String() }

// MarshalJSON is what toJSON() shows.
func (e exact) MarshalJSON() ([]byte, error) { return []byte(e.String()), nil }

// maxExponent is the largest power of ten of an exact: to add numbers of very different ones takes all digits between.
const maxExponent = 400

var errTooLarge = errors.New("the number is too large for an expression")

// exactly is a decimal as an int or a float64, if one of them says what it is; else an exact.
func exactly(d decimal.Decimal) any {
	if d.IsInteger() {
		if i := d.BigInt(); i.IsInt64() {
			return int(i.Int64())
		}
	}
	if f := d.InexactFloat64(); !math.IsInf(f, 0) && decimal.NewFromFloat(f).Equal(d) {
		return f
	}
	return exact{decimal.RequireFromString(d.String())} // of equal ones the same, without zeros at the end
}

// numberToExpr converts digits.
func numberToExpr(n replicator.Number) (any, error) {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return nil, errTooLarge
	}
	// 1.0 and 1e3 are integers too. At and above 2^53 float64 may have rounded.
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && len(n) < 17 {
		return int(f), nil
	}
	d, err := decimal.NewFromString(string(n))
	if err != nil || d.Exponent() > maxExponent || d.Exponent() < -maxExponent {
		return f, nil // as small as nothing, or of more digits than anybody means
	}
	return exactly(d), nil
}

// number is an operand as a decimal; ok is false if it is no number.
func number(v any) (d decimal.Decimal, ok bool) {
	switch v := v.(type) {
	case int:
		return decimal.NewFromInt(int64(v)), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return d, false
		}
		return decimal.NewFromFloat(v), true
	case exact:
		return v.Decimal, true
	}
	return d, false
}

// operator is an operator of expr's, and how this file calculates it.
type operator struct {
	ints    func(a, b int) (result int, ok bool) // ok is false if there is no int64 of that
	decimal func(a, b decimal.Decimal) decimal.Decimal
	compare func(order int) bool // instead of both
	others  func(a, b any) any   // expr's own
}

var operators = map[string]operator{
	"+":  {ints: sum, decimal: decimal.Decimal.Add, others: runtime.Add},
	"-":  {ints: difference, decimal: decimal.Decimal.Sub, others: runtime.Subtract},
	"*":  {ints: product, decimal: decimal.Decimal.Mul, others: runtime.Multiply},
	"==": comparison(func(order int) bool { return order == 0 }, runtime.Equal),
	"!=": comparison(func(order int) bool { return order != 0 }, func(a, b any) bool { return !runtime.Equal(a, b) }),
	"<":  comparison(func(order int) bool { return order < 0 }, runtime.Less),
	"<=": comparison(func(order int) bool { return order <= 0 }, runtime.LessOrEqual),
	">":  comparison(func(order int) bool { return order > 0 }, runtime.More),
	">=": comparison(func(order int) bool { return order >= 0 }, runtime.MoreOrEqual),
}

func comparison(of func(order int) bool, others func(a, b any) bool) operator {
	return operator{compare: of, others: func(a, b any) any { return others(a, b) }}
}

func sum(a, b int) (int, bool) { c := a + b; return c, (c > a) == (b > 0) }

func difference(a, b int) (int, bool) { c := a - b; return c, (c < a) == (b > 0) }

func product(a, b int) (int, bool) {
	high, low := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	return a * b, high == 0 && low <= math.MaxInt64 && a != math.MinInt && b != math.MinInt
}

// calculate is a binary operator's result.
func (o *operator) calculate(a, b any) (any, error) {
	i, intA := a.(int)
	k, intB := b.(int)
	isExact := isExact(a) || isExact(b)
	if o.compare != nil {
		if isExact || intA != intB { // expr compares an int with a float64 as a float64
			if x, y, ok := numbers(a, b); ok {
				return o.compare(x.Cmp(y)), nil
			}
		}
		return o.others(a, b), nil
	}
	if intA && intB {
		if sum, ok := o.ints(i, k); ok {
			return sum, nil
		}
	}
	x, y, ok := numbers(a, b)
	if !ok {
		return o.others(a, b), nil
	}
	d := o.decimal(x, y)
	if e := d.Exponent(); e > maxExponent || e < -2*maxExponent {
		return nil, errTooLarge
	}
	if isExact || intA && intB || intA && isLong(i) || intB && isLong(k) {
		return exactly(d), nil
	}
	return d.InexactFloat64(), nil
}

// isLong reports whether an integer has more digits than a float64 surely holds, before anything is added to it.
func isLong(i int) bool { return i > 1e15 || i < -1e15 }

func numbers(a, b any) (x, y decimal.Decimal, ok bool) {
	x, okA := number(a)
	y, okB := number(b)
	return x, y, okA && okB
}

// divided is a / b: of floats, but where one of the two is exact.
func divided(a, b any) (any, error) {
	x, y, ok := numbers(a, b)
	if !ok || !isExact(a) && !isExact(b) {
		return runtime.Divide(a, b), nil
	}
	if y.IsZero() {
		return nil, errors.New("invalid operation: a division by zero")
	}
	const digits = 30 // behind the point
	return exactly(x.DivRound(y, digits)), nil
}

// negative is -a.
func negative(a any) (any, error) {
	if d, ok := number(a); ok && (a == math.MinInt || isExact(a)) {
		return exactly(d.Neg()), nil
	}
	return runtime.Negate(a), nil
}

func isExact(v any) bool { _, is := v.(exact); return is }

// ownPrefix begins the names of the functions that stand for operators: no expression can name one.
const ownPrefix = "number "

// addOperators adds the functions that stand for operators.
func addOperators(c *conf.Config) {
	add := func(name string, typ any, f func(args ...any) (any, error)) { expr.Function(ownPrefix+name, f, typ)(c) }
	for name, o := range operators {
		typ := any(new(func(any, any) any))
		if o.compare != nil {
			typ = new(func(any, any) bool)
		}
		add(name, typ, func(args ...any) (any, error) { return o.calculate(args[0], args[1]) })
	}
	add("/", new(func(any, any) any), func(args ...any) (any, error) { return divided(args[0], args[1]) })
	add("negative", new(func(any) any), func(args ...any) (any, error) { return negative(args[0]) })
}

// exactOperators puts those functions where a checked tree has the operators, and the numbers that it writes out as
// they are written.
func exactOperators(parsed *parser.Tree) {
	text := []rune(parsed.Source.String())
	ast.Walk(&parsed.Node, visitor(func(n *ast.Node) {
		call := func(name string, args ...ast.Node) {
			ast.Patch(n, &ast.CallNode{Callee: &ast.IdentifierNode{Value: ownPrefix + name}, Arguments: args})
		}
		switch node := (*n).(type) {
		case *ast.FloatNode:
			at := node.Location()
			if at.From < 0 || at.To > len(text) || at.From >= at.To {
				return
			}
			written := strings.ReplaceAll(string(text[at.From:at.To]), "_", "")
			if d, err := decimal.NewFromString(written); err == nil && max(d.Exponent(), -d.Exponent()) <= maxExponent {
				if v := exactly(d); isExact(v) {
					ast.Patch(n, &ast.ConstantNode{Value: v})
				}
			}
		case *ast.BinaryNode:
			_, known := operators[node.Operator]
			if (known || node.Operator == "/") && mayBeOfRow(node.Left, node.Right) {
				call(node.Operator, node.Left, node.Right)
			}
		case *ast.UnaryNode:
			if node.Operator == "-" && mayBeOfRow(node.Node, node.Node) {
				call("negative", node.Node)
			}
		}
	}))
}

// mayBeOfRow reports whether both may be numbers, and one of them a number of the row: of a type that is not known
// before the row is.
func mayBeOfRow(a, b ast.Node) bool {
	ofRow, numbers := false, true
	for _, n := range []ast.Node{a, b} {
		switch n.(type) {
		case *ast.NilNode, *ast.StringNode, *ast.BoolNode:
			return false
		case *ast.ConstantNode, *ast.CallNode:
			ofRow = true
			continue
		}
		nature := n.Nature()
		switch {
		case nature.IsUnknown(nil):
			ofRow = true
		case !nature.IsInteger && !nature.IsFloat:
			numbers = false
		}
	}
	return ofRow && numbers
}
