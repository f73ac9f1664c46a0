package view

import "github.com/expr-lang/expr/ast"

// foldSums replaces sum(list, amount) with an equivalent fold that adds exactly. expr's own sum adds floats, so that a
// sum of prices could be 6640.999999999999 instead of 6641.
func foldSums(n *ast.Node) {
	call, ok := (*n).(*ast.BuiltinNode)
	if !ok || call.Name != "sum" || len(call.Arguments) == 0 || len(call.Arguments) > 2 {
		return
	}
	var amount ast.Node = &ast.PointerNode{}
	if len(call.Arguments) == 2 {
		predicate, ok := call.Arguments[1].(*ast.PredicateNode)
		if !ok {
			return
		}
		amount = predicate.Node
	}
	added := &ast.BinaryNode{Operator: "+", Left: &ast.PointerNode{Name: "acc"}, Right: amount}
	ast.Patch(n, &ast.BuiltinNode{Name: "reduce", Throws: call.Throws, Arguments: []ast.Node{
		call.Arguments[0], &ast.PredicateNode{Node: added}, &ast.IntegerNode{Value: 0},
	}})
}
