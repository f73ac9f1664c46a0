package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
)

// tree is an expression in which an identifier replaces each reference (address.city, $row_key, lines[0].sku). So the
// compiled expression never steps into objects: a step into a missing object gives a missing value, not an error.
type tree struct {
	node ast.Node
	refs []*treeRef
}

// treeRef is one property or column that an expression uses.
type treeRef struct {
	name    string // the identifier that replaces the property or column in the expression
	path    path
	guarded bool // the expression handles a missing value
	asIs    bool // a binary value is passed as bytes, and not as hexadecimal text
}

// rewriter finds references and replaces them with identifiers. It visits the nodes of the tree from the leaves up, as
// ast.Walk does.
type rewriter struct {
	callees map[*ast.IdentifierNode]bool // identifiers that are names of functions
	lets    map[string]bool              // names bound by let
	refs    map[ast.Node]*treeRef        // by identifier node: the property or column that the node replaced
	byName  map[string]*treeRef
	ofBytes map[string]byteFunction
	err     error
}

type visitor func(*ast.Node)

func (v visitor) Visit(n *ast.Node) { v(n) }

// analyse finds the references of a parsed expression, and replaces them with identifiers.
func analyse(root ast.Node, config *conf.Config) (*tree, error) {
	r := &rewriter{callees: map[*ast.IdentifierNode]bool{}, lets: map[string]bool{}, refs: map[ast.Node]*treeRef{},
		byName: map[string]*treeRef{}, ofBytes: byteFunctions()}
	t := &tree{node: root}
	ast.Walk(&t.node, visitor(func(n *ast.Node) {
		switch n := (*n).(type) {
		case *ast.CallNode:
			name, ok := n.Callee.(*ast.IdentifierNode)
			if !ok {
				r.fail("only functions can be called, not properties")
			} else {
				r.callees[name] = true
				r.checkFunction(name.Value, config)
			}
		case *ast.VariableDeclaratorNode:
			r.lets[n.Name] = true
		}
	}))
	ast.Walk(&t.node, visitor(foldSums))
	ast.Walk(&t.node, visitor(r.rewrite))
	ast.Walk(&t.node, visitor(r.unconverted))
	ast.Walk(&t.node, visitor(r.guard))
	if r.err != nil {
		return nil, r.err
	}
	used := map[*treeRef]bool{} // references that are in the tree; rewrite replaces `address` by `address.city`
	ast.Walk(&t.node, visitor(func(n *ast.Node) {
		if ref := r.refs[*n]; ref != nil {
			used[ref] = true
		}
	}))
	for ref := range used {
		for _, outer := range r.byName { // an expression that handles a missing address also handles a missing address.city
			ref.guarded = ref.guarded || outer.guarded && within(ref.path, outer.path)
		}
		t.refs = append(t.refs, ref)
	}
	slices.SortFunc(t.refs, func(a, b *treeRef) int { return strings.Compare(a.name, b.name) })
	return t, nil
}

// checkFunction fails if expressions have no function with the given name.
func (r *rewriter) checkFunction(name string, config *conf.Config) {
	if config.Functions[name] != nil {
		return
	}
	if config.Disabled[name] {
		r.fail("the function %s is not available, because a view must depend only on its cells", name)
	}
	known := slices.Collect(maps.Keys(config.Builtins))
	known = slices.AppendSeq(known, maps.Keys(config.Functions))
	slices.Sort(known)
	r.fail("there is no function %s%s", name, didYouMean(name, known))
}

func (r *rewriter) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// environment is the name by which an expression of expr accesses all its variables. $env["odd name"] is the property
// of that name.
const environment = "$env"

func (r *rewriter) rewrite(n *ast.Node) {
	switch node := (*n).(type) {
	case *ast.IdentifierNode:
		if r.callees[node] || r.lets[node.Value] || node.Value == environment {
			return
		}
		p := path{root: strings.TrimPrefix(node.Value, "$")}
		if p.own = p.root != node.Value; p.root == "" {
			r.fail("$ is not followed by a name. Write $name for a column")
		}
		r.replace(n, p)
	case *ast.ChainNode:
		if ref := r.refs[node.Node]; ref != nil {
			*n = node.Node
		}
	case *ast.MemberNode:
		r.member(n, node)
	}
}

// member merges a reference and a constant step, such as address and .city, into one reference.
func (r *rewriter) member(n *ast.Node, node *ast.MemberNode) {
	if id, ok := node.Node.(*ast.IdentifierNode); ok && id.Value == environment && r.refs[id] == nil {
		if name, ok := node.Property.(*ast.StringNode); ok {
			r.replace(n, path{root: name.Value})
		}
		return
	}
	base := r.refs[node.Node]
	if base == nil {
		return
	}
	p := base.path
	switch property := node.Property.(type) {
	case *ast.StringNode:
		p.step = append(slices.Clip(p.step), step{name: property.Value})
	case *ast.IntegerNode:
		if property.Value < 0 {
			return
		}
		p.step = append(slices.Clip(p.step), step{kind: stepIndex, index: property.Value})
	default:
		return
	}
	r.replace(n, p)
	if node.Optional {
		r.refs[*n].guarded = true
	}
}

func (r *rewriter) replace(n *ast.Node, p path) {
	name := envName(p)
	ref := r.byName[name]
	if ref == nil {
		p.text = name[1:]
		ref = &treeRef{name: name, path: p}
		r.byName[name] = ref
	}
	id := &ast.IdentifierNode{Value: name}
	ast.Patch(n, id)
	r.refs[id] = ref
}

// guard marks references that the expression allows to be missing: x ?? y, x?.y, x == nil, x != nil.
func (r *rewriter) guard(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok && id.Value == environment {
		r.fail(`$env is not followed by a name. Write $env["name"] for a property with an odd name`)
	}
	binary, ok := (*n).(*ast.BinaryNode)
	if !ok {
		return
	}
	switch binary.Operator {
	case "??":
		r.guardAll(binary.Left)
	case "==", "!=":
		if _, ok := binary.Right.(*ast.NilNode); ok {
			r.guardAll(binary.Left)
		} else if _, ok := binary.Left.(*ast.NilNode); ok {
			r.guardAll(binary.Right)
		}
	}
}

func (r *rewriter) guardAll(n ast.Node) {
	ast.Walk(&n, visitor(func(n *ast.Node) {
		if ref := r.refs[*n]; ref != nil {
			ref.guarded = true
		}
	}))
}

// envName returns the identifier for a path. It starts with a dot, so it can't equal a name in an expression.
func envName(p path) string {
	var b strings.Builder
	b.WriteByte('.')
	if p.own {
		b.WriteByte('$')
	}
	b.WriteString(quoteName(p.root))
	for _, s := range p.step {
		if s.kind == stepIndex {
			fmt.Fprintf(&b, "[%d]", s.index)
		} else {
			b.WriteByte('.')
			b.WriteString(quoteName(s.name))
		}
	}
	return b.String()
}

func quoteName(name string) string {
	if name == "" || strings.ContainsAny(name, `."[]$`) {
		return strconv.Quote(name)
	}
	return name
}

// within reports whether p equals outer, or leads into the value of outer.
func within(p, outer path) bool {
	return p.own == outer.own && p.root == outer.root && len(p.step) >= len(outer.step) &&
		slices.Equal(p.step[:len(outer.step)], outer.step)
}
