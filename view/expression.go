package view

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// memoryBudget limits what one evaluation may build, in elements and characters as expr counts them.
const memoryBudget = 1_000_000

const maxNodes = 1000

type expression struct {
	program *vm.Program
	inputs  []input
}

type input struct {
	name     string
	ref      ref
	required bool // if this input is missing, the result is missing
	asIs     bool // a binary value is passed as bytes, and not as hexadecimal text
}

// newConfig defines the available functions. It removes or fixes those whose result depends on the time (now), on the
// local time zone, or on the random order of a Go map (keys, values, toPairs), because a view's entries must depend
// only on the row.
func newConfig() *conf.Config {
	c := conf.CreateNew()
	c.MaxNodes = maxNodes
	c.WithEnv(map[string]any{})
	for _, option := range []expr.Option{
		expr.DisableBuiltin("now"), expr.DisableBuiltin("keys"), expr.DisableBuiltin("values"), expr.DisableBuiltin("toPairs"),
		expr.Function("keys", ofObject("keys", nameOf), new(func(any) []any)),
		expr.Function("values", ofObject("values", valueOf), new(func(any) []any)),
		expr.Patch(inUTC{}),
	} {
		option(c)
	}
	addOperators(c)
	addByteFunctions(c)
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	return c
}

// inUTC adds the argument time.UTC to each call of date(), which then reads a time without a zone as UTC. Unlike expr's
// patcher.WithTimezone, inUTC also sets the argument's type. In arguments of the functions that newConfig adds, expr
// doesn't find out types, and would dereference the pointer time.UTC.
type inUTC struct{}

func (inUTC) Visit(node *ast.Node) {
	if call, ok := (*node).(*ast.BuiltinNode); ok && call.Name == "date" {
		zone := &ast.ConstantNode{Value: time.UTC}
		zone.SetType(reflect.TypeOf(time.UTC))
		ast.Patch(node, &ast.BuiltinNode{Name: call.Name, Arguments: append([]ast.Node{zone}, call.Arguments...)})
	}
}

func parseExpression(text string) (*parser.Tree, *tree, *conf.Config, error) {
	config := newConfig()
	parsed, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return nil, nil, nil, brief(err)
	}
	refs, err := analyse(parsed.Node, config)
	if err != nil {
		return nil, nil, nil, err
	}
	parsed.Node = refs.node
	return parsed, refs, config, nil
}

// compileExpression compiles text. want is the required kind of the result; reflect.Invalid allows any kind. If the
// kind depends on the row, it is not checked here. resolve compiles the paths.
func compileExpression(text string, want reflect.Kind, resolve func(path) (ref, error)) (*expression, error) {
	parsed, refs, config, err := parseExpression(text)
	if err != nil {
		return nil, err
	}
	e := &expression{}
	env := types.Map{}
	for _, t := range refs.refs {
		r, err := resolve(t.path)
		if err != nil {
			return nil, err
		}
		env[t.name] = types.Any
		e.inputs = append(e.inputs, input{name: t.name, ref: r, required: !t.guarded, asIs: t.asIs})
	}
	config.WithEnv(env)
	config.Expect, config.ExpectAny = want, true
	if _, err = new(checker.Checker).PatchAndCheck(parsed, config); err != nil {
		return nil, brief(err)
	}
	exactOperators(parsed)
	if _, err = checker.Check(parsed, config); err != nil {
		return nil, brief(err)
	}
	config.Expect = reflect.Invalid // the kind was checked above, so the compiled code need not convert its result
	if err = optimizer.Optimize(&parsed.Node, config); err != nil {
		return nil, brief(err)
	}
	if e.program, err = compiler.Compile(parsed, config); err != nil {
		return nil, brief(err)
	}
	return e, nil
}

// brief returns an error of the library expr as one line, without expr's drawing of the position.
func brief(err error) error {
	var f *file.Error
	switch {
	case !errors.As(err, &f):
		return err
	case strings.HasPrefix(f.Message, "invalid integer literal") && strings.Contains(f.Message, "out of range"):
		return fmt.Errorf("an integer is beyond 64 bits. Write it with a decimal point, as in 18446744073709551615.0 "+
			"(at character %d)", f.Column+1)
	}
	return fmt.Errorf("%s (at character %d)%s", f.Message, f.Column+1, notSQL(f.Message))
}

// notSQL returns a hint at the right syntax if an error message of the library expr is about an SQL construct.
// Otherwise it returns "".
func notSQL(message string) string {
	for written, say := range map[string]string{
		`Operator("=")`: "; compare with ==", `Identifier("AND")`: "; use and", `Identifier("OR")`: "; use or",
		`Identifier("IS")`: "; use == nil", `Identifier("LIKE")`: "; use startsWith, endsWith, contains or matches",
	} {
		if strings.HasSuffix(message, written) {
			return say
		}
	}
	return ""
}

// run returns the expression's value, or nil if the value is missing.
func (s *scope) run(e *expression) (any, error) {
	if s.env == nil {
		s.env = make(map[string]any)
	}
	clear(s.env)
	for i := range e.inputs {
		in := &e.inputs[i]
		v, err := s.lookup(&in.ref)
		if err != nil {
			return nil, err
		}
		if err := readable(v); err != nil {
			return nil, fmt.Errorf("%s: %w", in.ref.text, err)
		}
		if v == nil && in.required {
			return nil, nil
		}
		if in.asIs {
			s.env[in.name] = v
		} else if s.env[in.name], err = toExpr(v); err != nil {
			return nil, fmt.Errorf("%s: %w", in.ref.text, err)
		}
	}
	s.machine.MemoryBudget = memoryBudget
	v, err := s.machine.Run(e.program, s.env)
	if err != nil {
		return nil, discreet(err)
	}
	return fromExpr(v)
}

// test evaluates a view's `where`. A missing result counts as false.
func (s *scope) test(e *expression) (bool, error) {
	v, err := s.run(e)
	if err != nil || v == nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("the result is %s, not true or false", sortOf(v))
	}
	return b, nil
}

// discreet removes the row's values from a runtime error, because errors are logged. The library expr quotes a value
// that it can't convert ("invalid operation: int(secret)").
func discreet(err error) error {
	var f *file.Error
	if !errors.As(err, &f) {
		return errors.New("the expression failed")
	}
	reason := "the expression failed"
	switch m := f.Message; {
	case strings.Contains(m, "view.exact"):
		reason = "a number has too many digits for this operation"
	case m == errTooLarge.Error():
		reason = m
	case strings.Contains(m, ", got "), strings.Contains(m, "negative shift count"): // m shows a value of the row
	case strings.HasPrefix(m, "invalid operation: int("), strings.HasPrefix(m, "invalid operation: float("):
		reason = "a value is not a number"
	case strings.HasPrefix(m, "interface conversion: interface {} is "), strings.HasPrefix(m, "invalid operation: "),
		strings.HasPrefix(m, "invalid argument for "), m == "memory budget exceeded":
		reason = strings.ReplaceAll(strings.Replace(m, "interface conversion: interface {} is ", "a value is ",
			1), "interface {}", "any")
	case strings.HasPrefix(m, "index out of range"):
		reason = "index out of range"
	case strings.HasPrefix(m, "cannot fetch"):
		reason = "a member of a value without members"
	}
	return fmt.Errorf("%s (at character %d)", reason, f.Column+1)
}

func nameOf(_ map[string]any, name string) any  { return name }
func valueOf(m map[string]any, name string) any { return m[name] }

// ofObject returns an expression function that takes an object. The function returns a list: of(object, name) for each
// member of the object, in the order of the names.
func ofObject(function string, of func(m map[string]any, name string) any) func(args ...any) (any, error) {
	return func(args ...any) (any, error) {
		m, ok := args[0].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("invalid argument for %s (not an object)", function)
		}
		list := make([]any, 0, len(m))
		for _, name := range slices.Sorted(maps.Keys(m)) {
			list = append(list, of(m, name))
		}
		return list, nil
	}
}
