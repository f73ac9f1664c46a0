package replicator_test

import (
	"errors"
	"fmt"

	"replicator"
)

// A sink calls State.Next for every op, and stores the state that is returned. So an op that is replayed changes
// nothing, and a deleted row does not come back.
func ExampleState_Next() {
	state := replicator.Unseen
	for _, op := range []replicator.Op{
		{Version: 1, Order: 10}, // a row is inserted
		{Version: 2, Order: 20}, // a newer version of it is inserted
		{Version: 1, Order: 10}, // the first insert is replayed after a restart
		{Version: 1, AsOf: 30},  // the newer version is deleted: a re-read finds the first one
		{Version: 2, Order: 20}, // the insert of the deleted version is replayed
	} {
		var applied bool
		state, applied = state.Next(op)
		fmt.Println(applied, state.Version)
	}
	// Output:
	// true 1
	// true 2
	// false 2
	// true 1
	// false 1
}

// A cell's key is made of the values of its key columns. Sinks show it as text. Different keys of a table have
// different texts.
func ExampleMakeKey() {
	for _, values := range [][]any{{int64(7), []byte("DE")}, {"a:b", "c"}, {"a", "b:c"}} {
		key, err := replicator.MakeKey(values...)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(replicator.Cell{Table: "cell", Column: "users", Key: key}.Key)
	}
	// Output:
	// 7:4445
	// a%3Ab:c
	// a:b:c
}

// A sink says which views an error concerns, and whether an operator must act. The sink's other views go on.
func ExampleOfView() {
	users, orders := &replicator.View{Name: "users"}, &replicator.View{Name: "orders"}
	err := replicator.OfView(replicator.Fatal(errors.New("table users has no column email")), "users")
	groups, others := replicator.Troubled([]*replicator.View{users, orders}, err)
	fmt.Println(err, replicator.IsFatal(err))
	fmt.Println("in trouble:", groups[0][0].Name)
	fmt.Println("goes on:", others[0].Name)
	// Output:
	// table users has no column email true
	// in trouble: users
	// goes on: orders
}

// A sink stores a Mark beside the data: the view's progress. A lower mark never replaces a higher one.
func ExampleStanding_Raise() {
	mark := replicator.Standing{Position: replicator.Position{Order: 20, Token: "binlog.000001:400"}}
	mark = mark.Raise(replicator.Standing{Position: replicator.Position{Order: 10, Token: "binlog.000001:200"}})
	fmt.Println(mark.Position.Token)
	// Output: binlog.000001:400
}
