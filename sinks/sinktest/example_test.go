package sinktest_test

import (
	"context"
	"fmt"
	"testing"

	"replicator"
	"replicator/sinks/sinktest"
)

// users is a view of one row for each user.
func users() *replicator.View {
	return &replicator.View{
		Name: "users", Kind: "row", From: []replicator.Feed{{Table: "user"}},
		Fields: []replicator.Field{{Name: "email", Path: "email"}}, Fingerprint: "1",
	}
}

// This is the whole test of a sink, here of the in-memory one. Read reads the stored content without the sink's help.
func ExampleRun() {
	test := func(t *testing.T) { // func TestConformance(t *testing.T)
		sink := sinktest.NewReference()
		sinktest.Run(t, sinktest.Subject{
			Tables:    []replicator.Table{{Name: "user", Key: []string{"id"}}},
			Views:     []*replicator.View{users()},
			New:       func(testing.TB) replicator.Sink { return sink },
			Read:      func(_ testing.TB, v *replicator.View) map[string]string { return sink.Read(v) },
			Histories: 300,
		})
	}
	_ = test
}

// This is how a pipeline uses a sink. It opens views, and applies ops to cells. An op that is older than the cell's
// state in the sink is stale.
func ExampleReference() {
	ctx := context.Background()
	sink := sinktest.NewReference()
	defer sink.Close()
	target, err := sink.Open(ctx, "", []*replicator.View{users()})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := replicator.MakeKey(int64(7))
	if err != nil {
		fmt.Println(err)
		return
	}
	put := func(version int64, email string) replicator.Op {
		row := replicator.Value{View: 0, Entries: []replicator.Entry{{Fields: []any{email}}}}
		return replicator.Op{Cell: replicator.Cell{Table: "user", Key: key}, Version: version, Order: version,
			Values: []replicator.Value{row}}
	}
	for _, op := range []replicator.Op{put(2, "new@example.com"), put(1, "old@example.com")} {
		applied, err := target.Apply(ctx, []replicator.Op{op})
		fmt.Println(op.Version, len(applied.Stale) > 0, err)
	}
	fmt.Println(sink.Read(users()))
	// Output:
	// 2 false <nil>
	// 1 true <nil>
	// map[7:email=new@example.com]
}
