package elastic

import (
	"fmt"
	"testing"

	"replicator"
)

// judged applies ops to documents without a server. sources has the documents' sources by id. It returns the sources to
// write, by id.
func judged(t testing.TB, target *Target, sources map[string]string, ops ...replicator.Op) map[string]string {
	t.Helper()
	b := target.gather(ops)
	written := map[string]string{}
	for _, d := range b.documents {
		source, exists := sources[d.id]
		d.known, d.whole, d.exists, d.source = true, true, exists, []byte(source)
		if err := b.decide(d); err != nil {
			t.Fatal(err)
		}
		if d.next != nil {
			written[d.id] = string(d.keeper.render(nil, d.next))
		}
	}
	return written
}

func testTarget(source string, k *keeper) *Target {
	k.useIndex(&generation{write: "v-r1-write-x"})
	return &Target{sink: &Sink{}, source: source, views: []*replicator.View{k.view}, kept: []*keeper{k}, memory: newMemory()}
}

func testKey(t testing.TB, values ...any) replicator.Key {
	t.Helper()
	key, err := replicator.MakeKey(values...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func testOp(t testing.TB, column string, version, order, asOf int64, fields ...any) replicator.Op {
	o := replicator.Op{Cell: replicator.Cell{Table: "cell", Column: column, Key: testKey(t, int64(7))},
		Version: version, Order: order, AsOf: asOf, Values: []replicator.Value{{}}}
	if fields != nil {
		o.Values[0].Entries = []replicator.Entry{{Fields: fields}}
	}
	return o
}

// Every later version of the program must be able to read the documents, and so must older versions during an upgrade.
func TestTheStoredFormOfDocuments(t *testing.T) {
	broken := testOp(t, "a", 5, 50, 0)
	broken.Values[0].Err = fmt.Errorf("no such codec")
	deep := replicator.ObjectOf(map[string]any{"deep": []any{replicator.Number("1.10")}})
	const merged = `{"x":"first","y":2,"_replicator":{"cells":{` +
		`"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50,"f":{"x":"first"}},` +
		`"cell.b":{"k":"aYAAAAAAAAAH","v":6,"o":60,"a":60,"f":{"x":1,"y":2}}}}}`
	for _, c := range []struct {
		name         string
		merged       bool
		source       string
		nearby       []string
		stands, want string
		ops          []replicator.Op
	}{
		{name: "a put",
			want: `{"x":1,"y":{"deep":[1.10]},"_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50}}}}`,
			ops:  []replicator.Op{testOp(t, "a", 5, 50, 0, int64(1), deep)}},
		{name: "a look", want: `{"y":true,"_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":60,"a":60}}}}`,
			ops: []replicator.Op{testOp(t, "a", 5, 0, 60, nil, true)}},
		{name: "a cell that is gone",
			want: `{"_replicator":{"hidden":true,"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":-1,"o":60,"a":60}}}}`,
			ops:  []replicator.Op{testOp(t, "a", replicator.NoVersion, 0, 60)}},
		{name: "a dead letter",
			want: `{"_replicator":{"hidden":true,"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50,"d":true}}}}`,
			ops:  []replicator.Op{broken}},
		{name: "a look from before what is shown",
			stands: `{"x":1.50,"y":"\n","_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50}}}}`,
			want:   `{"x":1.50,"y":"\n","_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50,"a":40}}}}`,
			ops:    []replicator.Op{testOp(t, "a", 4, 0, 40, "old", nil)}},
		{name: "cells that are merged", merged: true, want: merged,
			ops: []replicator.Op{testOp(t, "b", 6, 0, 60, int64(1), int64(2)), testOp(t, "a", 5, 50, 0, "first", nil)}},
		{name: "one of several is gone", merged: true, stands: merged,
			want: `{"x":1,"y":2,"_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":-1,"o":70,"a":70},` +
				`"cell.b":{"k":"aYAAAAAAAAAH","v":6,"o":60,"a":60,"f":{"x":1,"y":2}}}}}`,
			ops: []replicator.Op{testOp(t, "a", replicator.NoVersion, 0, 70)}},
		{name: "a shard's cell beside another's", merged: true, source: "west/2",
			stands: `{"x":1,"_replicator":{"cells":{"cell.a@east":{"k":"aYAAAAAAAAAH","v":9,"o":90,"f":{"x":1}}}}}`,
			want: `{"x":1,"y":2,"_replicator":{"cells":{"cell.a@east":{"k":"aYAAAAAAAAAH","v":9,"o":90,"f":{"x":1}},` +
				`"cell.a@west%2F2":{"k":"aYAAAAAAAAAH","v":5,"o":50,"f":{"x":7,"y":2}}}}}`,
			ops: []replicator.Op{testOp(t, "a", 5, 50, 0, int64(7), int64(2))}},
		{name: "a shard's cell that waits for another's", merged: true, source: "west", nearby: []string{"east"},
			stands: `{"x":1,"_replicator":{"cells":{"cell.a@east":{"k":"aYAAAAAAAAAH","v":9,"o":90,"f":{"x":1}}}}}`,
			want: `{"x":1,"_replicator":{"cells":{"cell.a@east":{"k":"aYAAAAAAAAAH","v":9,"o":90,"f":{"x":1}},` +
				`"cell.a@west":{"k":"aYAAAAAAAAAH","v":5,"o":50,"d":true,"w":true,"f":{"x":7,"y":2}}}}}`,
			ops: []replicator.Op{testOp(t, "a", 5, 50, 0, int64(7), int64(2))}},
		{name: "what is stale is not written", stands: merged, merged: true,
			ops: []replicator.Op{testOp(t, "a", 4, 49, 0, "old", nil)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sources := map[string]string{}
			if c.stands != "" {
				sources["7"] = c.stands
			}
			target := testTarget(c.source, testKeeper(c.merged))
			target.nearby = c.nearby
			got := judged(t, target, sources, c.ops...)["7"]
			if got != c.want {
				t.Errorf("written is\n%s\nand not\n%s", got, c.want)
			}
		})
	}
}

func TestTheStoredFormOfMarks(t *testing.T) {
	const want = `{"_replicator":{"cells":{"marks":{"":{"order":5,"token":"t","phase":"filled","epoch":3},` +
		`"west":{"order":4,"token":"u","phase":"filling","fill":{"cell":{"after":"x","rows":9,"total":10}},` +
		`"fill_from":2,"repair":true,"fingerprint":"1.m2"}}},"hidden":true}}`
	r := registry{
		"": {StoredStanding: replicator.Standing{
			Position: replicator.Position{Order: 5, Token: "t"}, Epoch: 3}.Stored()},
		"west": {Fingerprint: "1.m2", StoredStanding: replicator.Standing{
			Position: replicator.Position{Order: 4, Token: "u"}, FillFrom: 2, Repair: true,
			Fill: map[string]replicator.Progress{"cell": {After: "x", Rows: 9, Total: 10}}}.Stored()},
	}
	text, err := r.render()
	if err != nil || string(text) != want {
		t.Errorf("written is\n%s (%v)\nand not\n%s", text, err, want)
	}
	back, err := parseRegistry(&document{exists: true, source: text})
	if again, _ := back.render(); err != nil || string(again) != want {
		t.Errorf("it is read as %+v (%v)", back, err)
	}
}

// BenchmarkJudging measures the work on a batch between the read and the write, without a server.
func BenchmarkJudging(b *testing.B) {
	for _, merged := range []bool{false, true} {
		k := testKeeper(merged)
		target := testTarget("", k)
		var first, second []replicator.Op
		for n := range int64(800) {
			o := testOp(b, "a", 5, 50, 0, "user@example.org", n*1_000_003)
			o.Cell.Key = testKey(b, n)
			first = append(first, o)
			o.Version, o.Order = 6, 60
			second = append(second, o)
			if merged {
				o.Cell.Column = "b"
				first = append(first, o)
			}
		}
		sources := judged(b, target, nil, first...)
		for name, sources := range map[string]map[string]string{"new": nil, "newer": sources} {
			b.Run(fmt.Sprintf("%s/merged=%v", name, merged), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					batch := target.gather(second)
					for _, d := range batch.documents {
						source, exists := sources[d.id]
						d.known, d.exists = true, exists
						if exists {
							d.source = []byte(source)
						}
						if err := batch.decide(d); err != nil || d.next == nil {
							b.Fatal(err)
						}
						d.text = k.render(d.text[:0], d.next)
						d.written = true
						target.memory.note(d)
					}
					batch.outcome()
				}
			})
		}
	}
}
