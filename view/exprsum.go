package view

import "github.com/expr-lang/expr/ast"

// foldSums writes sum(list, amount) as the fold that it is, so that its addition is ours: expr's own adds up floats, and
// a sum of prices would be 6640.999999999999 where they come to 6641.
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
