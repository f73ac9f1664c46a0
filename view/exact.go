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

// The expr library computes with int and float64, but views must hold every number exactly. A number that fits neither
// type becomes an exact. An exact passes through an expression (x ?? 0, a ? x : y) unchanged, but an expr function that
// accepts only ints and floats fails.
//
// If an operand may be a number of the row, functions of this file replace the operators. They add, subtract and
// multiply floats as decimals (0.1 * 3 is 0.3), and integers don't wrap around.

// exact is a number that neither int nor float64 can represent.
type exact struct{ decimal.Decimal }

// String returns all digits. The expression function string calls it.
func (e exact) String() string { return e.Decimal.String() }

// MarshalJSON returns all digits. The expression function toJSON calls it.
func (e exact) MarshalJSON() ([]byte, error) { return []byte(e.String()), nil }

// maxExponent limits the exponent of a decimal number, because adding two numbers needs memory for all digits between
// their exponents.
const maxExponent = 400

var errTooLarge = errors.New("the number is too large for an expression")

// exactly returns a decimal as an int or a float64 if that type holds it exactly, and otherwise as an exact.
func exactly(d decimal.Decimal) any {
	if d.IsInteger() {
		if i := d.BigInt(); i.IsInt64() {
			return int(i.Int64())
		}
	}
	if f := d.InexactFloat64(); !math.IsInf(f, 0) && decimal.NewFromFloat(f).Equal(d) {
		return f
	}
	// The text has no trailing zeros, so equal numbers become equal exacts.
	return exact{decimal.RequireFromString(d.String())}
}

func numberToExpr(n replicator.Number) (any, error) {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return nil, errTooLarge
	}
	// 1.0 and 1e3 are integers, too. From 2^53 on, f may be rounded.
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && len(n) < 17 {
		return int(f), nil
	}
	d, err := decimal.NewFromString(string(n))
	if err != nil || d.Exponent() > maxExponent || d.Exponent() < -maxExponent {
		return f, nil // only a number near 0, or with very many digits, is rounded to a float64
	}
	return exactly(d), nil
}

// number returns an operand as a decimal. ok is false if it isn't a number.
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

// operator describes how this file computes an operator of expr, the library for expressions.
type operator struct {
	ints    func(a, b int) (result int, ok bool) // ok is false if the result does not fit into int64
	decimal func(a, b decimal.Decimal) decimal.Decimal
	compare func(order int) bool // set only for comparisons, for which `ints` and `decimal` are nil
	others  func(a, b any) any   // the operator of the library expr, for operands of all other types
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

func (o *operator) calculate(a, b any) (any, error) {
	i, intA := a.(int)
	k, intB := b.(int)
	isExact := isExact(a) || isExact(b)
	if o.compare != nil {
		if isExact || intA != intB { // expr would compare an int and a float64 as floats, and lose digits
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

// isLong reports whether an integer has so many digits that a float64 result may lose some of them.
func isLong(i int) bool { return i > 1e15 || i < -1e15 }

func numbers(a, b any) (x, y decimal.Decimal, ok bool) {
	x, okA := number(a)
	y, okB := number(b)
	return x, y, okA && okB
}

// divided returns a / b. If a or b is an exact, it divides decimals, to 30 digits after the point. Otherwise it divides
// floats, as expr does.
func divided(a, b any) (any, error) {
	x, y, ok := numbers(a, b)
	if !ok || !isExact(a) && !isExact(b) {
		return runtime.Divide(a, b), nil
	}
	if y.IsZero() {
		return nil, errors.New("invalid operation: a division by zero")
	}
	const digits = 30
	return exactly(x.DivRound(y, digits)), nil
}

func negative(a any) (any, error) {
	if d, ok := number(a); ok && (a == math.MinInt || isExact(a)) {
		return exactly(d.Neg()), nil
	}
	return runtime.Negate(a), nil
}

func isExact(v any) bool { _, is := v.(exact); return is }

// ownPrefix begins the names of the functions that replace operators. The space keeps expressions from calling the
// functions by name.
const ownPrefix = "number "

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

// exactOperators replaces the operators of a type-checked tree with the functions of addOperators. It also turns each
// literal number that no float64 holds exactly into a constant of type exact.
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

// mayBeOfRow reports whether both operands may be numbers and at least one may come from the row. The types of a row's
// values are unknown when the expression is compiled.
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
