package changelog

import (
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// A topic outlives the program that wrote it, and other programs read it (docs/changelog-format.md). So stored records
// must stay readable, with the same meaning.
func TestTheStoredFormOfAChangelog(t *testing.T) {
	headers := func(texts ...string) (all []kgo.RecordHeader) {
		for i := 0; i < len(texts); i += 2 {
			all = append(all, kgo.RecordHeader{Key: texts[i], Value: []byte(texts[i+1])})
		}
		return all
	}
	cell := replicator.Cell{Table: "cell", Column: "users", Key: key(t, int64(7), "a", []byte{0, 255})}
	for _, c := range []struct {
		value   string
		headers []kgo.RecordHeader
		want    *Record
	}{
		{`{"op":"put","version":5,"order":9,"time":"1970-01-01T00:00:01.000000023Z","columns":{"n":1,"f":1.5},` +
			`"body":{"a":1}}`,
			headers("op", "put", "version", "5", "order", "9", "as_of", "0", "source", ""),
			&Record{Cell: cell, State: replicator.State{Version: 5, Order: 9}, Codec: "json",
				Row: &replicator.Row{Cell: cell, Version: 5, Order: 9, Time: time.Unix(1, 23).UTC(), Body: []byte(`{"a":1}`),
					Names: []string{"n", "f"}, Columns: []any{int64(1), 1.5}}}},
		{"", headers("op", "gone", "version", "-1", "order", "4", "as_of", "4", "source", "a"),
			&Record{Cell: cell, State: replicator.State{Version: -1, Order: 4, AsOf: 4}, Source: "a"}},
		{`{"op":"put","version":5,"order":9,"dead":"too long"}`,
			headers("op", "dead", "version", "5", "order", "9", "as_of", "0", "source", ""),
			&Record{Cell: cell, State: replicator.State{Version: 5, Order: 9}, Dead: "too long"}},
	} {
		in := &kgo.Record{Headers: c.headers,
			Key: []byte(`{"table":"cell","key":[7,"a",{"base64":"AP8="}],"column":"users"}`)}
		if c.value != "" {
			in.Value = []byte(c.value)
		}
		if got, err := Decode(in); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is read as %+v %+v (%v), want %+v %+v", c.value, got, rowOf(got), err, c.want, c.want.Row)
		}
		out := Encode(c.want)
		if string(out.Key) != string(in.Key) || string(out.Value) != c.value || !reflect.DeepEqual(out.Headers, in.Headers) {
			t.Errorf("it is written as %s %s %q, want %s %s %q", out.Key, out.Value, out.Headers, in.Key, c.value, in.Headers)
		}
	}
}

func rowOf(r *Record) *replicator.Row {
	if r == nil {
		return nil
	}
	return r.Row
}
