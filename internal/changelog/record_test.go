package changelog

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

func key(t testing.TB, values ...any) replicator.Key {
	t.Helper()
	k, err := replicator.MakeKey(values...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestARecordComesBackAsItWas(t *testing.T) {
	cell := replicator.Cell{Table: "cell", Column: "users",
		Key: key(t, int64(math.MinInt64), uint64(math.MaxUint64), "ü\x00\"", "\xff", []byte{0, 255})}
	row := func(change func(*Record)) *Record {
		r := &Record{Cell: cell, State: replicator.State{Version: 5, Order: 9, AsOf: 3}, Codec: "json",
			Row: &replicator.Row{Cell: cell, Version: 5, Order: 9, Time: time.Unix(1, 23).UTC(), Body: []byte(`{"a": 1}`)}}
		change(r)
		return r
	}
	for name, r := range map[string]*Record{
		"a JSON body": row(func(*Record) {}),
		"a look":      row(func(r *Record) { r.State.AsOf = 9 }),
		"every type of column": row(func(r *Record) {
			r.Row.Names = []string{"z", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"}
			r.Row.Columns = []any{nil, true, false, int64(-1 << 63), uint64(1<<64 - 1), 1.0, -1e300, 0.1,
				replicator.Number("1.10"), "text", "\xfe", []byte{1}, replicator.RawJSON(`{"x": 1.0}`)}
		}),
		"JSON that is none":      row(func(r *Record) { r.Row.Body = []byte("{") }),
		"JSON that is not UTF-8": row(func(r *Record) { r.Row.Body = []byte("\"\xff\"") }),
		"a column of such": row(func(r *Record) {
			r.Row.Names, r.Row.Columns = []string{"j"},
				[]any{replicator.RawJSON("{")}
		}),
		"a body that is null": row(func(r *Record) { r.Row.Body = []byte("null") }),
		"an empty body":       row(func(r *Record) { r.Row.Body = []byte{} }),
		"no body":             row(func(r *Record) { r.Row.Body, r.Codec = nil, "" }),
		"another codec":       row(func(r *Record) { r.Codec, r.Row.Body = "zlib+pickle", []byte{1, 2, 0xff} }),
		"no time":             row(func(r *Record) { r.Row.Time = time.Time{} }),
		"another spelling":    row(func(r *Record) { r.Row.ColumnAs = "Users" }),
		"nothing is left": row(func(r *Record) {
			r.Row, r.Codec, r.State = nil, "",
				replicator.State{Version: -1, Order: 4, AsOf: 4}
		}),
		"a dead letter":            row(func(r *Record) { r.Row, r.Codec, r.Dead = nil, "", "its body is too long" }),
		"a table without a column": row(func(r *Record) { r.Cell.Column, r.Row.Cell.Column = "", "" }),
	} {
		t.Run(name, func(t *testing.T) {
			in := Encode(r)
			got, err := Decode(in)
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, in.Key, in.Value)
			}
			if !reflect.DeepEqual(got, r) {
				t.Errorf("got  %+v %+v\nwant %+v %+v\n%s", got, got.Row, r, r.Row, in.Value)
			}
		})
	}
}

func TestOtherReadersSeeADecodedBody(t *testing.T) {
	in := Encode(&Record{Cell: replicator.Cell{Table: "e", Key: key(t, int64(1))}, Codec: "pickle",
		State: replicator.State{Version: 2, Order: 2}, Row: &replicator.Row{Body: []byte{1}},
		Body: replicator.ObjectOf(map[string]any{"n": uint64(1<<64 - 1), "d": replicator.Number("0.10")})})
	const want = `{"op":"put","version":2,"order":2,"body":{"d":0.10,"n":18446744073709551615},"codec":"pickle","raw":"AQ=="}`
	if string(in.Key) != `{"table":"e","key":[1]}` || string(in.Value) != want {
		t.Errorf("%s\n%s", in.Key, in.Value)
	}
}

func TestWhatIsNoRecordOfAChangelogIsToldSo(t *testing.T) {
	ours := func() *kgo.Record {
		return Encode(&Record{Cell: replicator.Cell{Table: "e", Key: key(t, int64(1))},
			State: replicator.State{Version: 2, Order: 2}, Row: &replicator.Row{Body: []byte{1}}, Codec: "pickle"})
	}
	for name, spoil := range map[string]func(*kgo.Record){
		"no key":             func(r *kgo.Record) { r.Key = nil },
		"another key":        func(r *kgo.Record) { r.Key = []byte("user:1") },
		"spaces in the key":  func(r *kgo.Record) { r.Key = []byte(`{"table": "e","key":[1]}`) },
		"a null in the key":  func(r *kgo.Record) { r.Key = []byte(`{"table":"e","key":[null]}`) },
		"no headers":         func(r *kgo.Record) { r.Headers = nil },
		"a header is text":   func(r *kgo.Record) { r.Headers[1].Value = []byte("x") },
		"another op":         func(r *kgo.Record) { r.Headers[0].Value = []byte("delete") },
		"no value":           func(r *kgo.Record) { r.Value = nil },
		"another value":      func(r *kgo.Record) { r.Value = []byte("[]") },
		"two states":         func(r *kgo.Record) { r.Headers[1].Value = []byte("7") },
		"look before a put":  func(r *kgo.Record) { r.Headers[3].Value = []byte("7") },
		"gone with a value":  func(r *kgo.Record) { r.Headers[0].Value = []byte("gone") },
		"codec without body": func(r *kgo.Record) { r.Value = []byte(`{"version":2,"order":2,"codec":"json"}`) },
	} {
		r := ours()
		spoil(r)
		if _, err := Decode(r); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCellsOfAnEntityAreInOnePartition(t *testing.T) {
	seen := map[int]bool{}
	for range 1000 {
		k := key(t, rand.Int64())
		a := Partition(replicator.Cell{Table: "cell", Key: k, Column: "users"}, 12)
		for _, other := range []replicator.Cell{{Table: "cell", Key: k, Column: "profile"}, {Table: "notes", Key: k}} {
			if b := Partition(other, 12); a != b {
				t.Fatalf("partitions %d and %d", a, b)
			}
		}
		seen[a] = true
	}
	if len(seen) != 12 {
		t.Errorf("of 12 partitions %d are used", len(seen))
	}
	// Stored topics rely on this number, so it must never change.
	if p := Partition(replicator.Cell{Table: "cell", Key: key(t, int64(42))}, 1000); p != 186 {
		t.Errorf("partition %d", p)
	}
}

func TestAMarkComesBackAsItWas(t *testing.T) {
	m := &Mark{View: "v", Source: "a", Fingerprint: "f", Time: time.Unix(5, 6).UTC(), Topic: "id", Partitions: 3,
		Offsets: []int64{1, 2, 3}, Forgotten: []int64{0, 1, 0}, Standing: replicator.Standing{
			Position: replicator.Position{Order: 7, Token: "tok"}, Fill: map[string]replicator.Progress{"t": {Rows: 4}}}}
	view, source, got, err := DecodeMark(EncodeMark(m))
	if err != nil || view != "v" || source != "a" || !reflect.DeepEqual(got, m) {
		t.Errorf("%s %s %+v %v", view, source, got, err)
	}
	gone := EncodeMark(m)
	gone.Value = nil
	if _, _, got, err := DecodeMark(gone); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	gone.Value = []byte("7")
	if view, _, _, err := DecodeMark(gone); view != "v" || !errors.Is(err, ErrNotOurs) {
		t.Errorf("%s %v", view, err)
	}
}

// Whatever a topic holds, Decode returns ErrNotOurs, or a record that Encode and Decode reproduce.
func FuzzDecode(f *testing.F) {
	cell := replicator.Cell{Table: "cell", Column: "users", Key: key(f, int64(1), []byte{1})}
	for _, r := range []*Record{
		{Cell: cell, State: replicator.State{Version: 1, Order: 2}, Codec: "json",
			Row: &replicator.Row{Body: []byte("{}"), Names: []string{"a", "b"}, Columns: []any{1.5, []byte{1}}}},
		{Cell: cell, State: replicator.State{Version: -1, Order: 2, AsOf: 2}},
	} {
		in := Encode(r)
		f.Add(in.Key, in.Value, "put", int64(1), int64(2), int64(0))
	}
	f.Fuzz(func(t *testing.T, key, value []byte, op string, version, order, asOf int64) {
		in := &kgo.Record{Key: key, Value: value, Headers: headers(&Record{
			State: replicator.State{Version: version, Order: order, AsOf: asOf}})}
		in.Headers[0].Value = []byte(op)
		r, err := Decode(in)
		if err != nil {
			if !errors.Is(err, ErrNotOurs) {
				t.Fatal(err)
			}
			return
		}
		again, err := Decode(Encode(r))
		if err != nil {
			t.Fatalf("%v of %+v", err, r)
		}
		if !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v %+v became %+v %+v", r, r.Row, again, again.Row)
		}
	})
}
