package mysql

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"replicator"
)

func TestStatesAndRowsAreReadAsTheyWereWritten(t *testing.T) {
	a := replicator.State{Version: math.MaxInt64 - 1, Order: math.MaxInt64, AsOf: 7}
	b := replicator.State{Version: replicator.NoVersion, Order: 3, AsOf: 3}
	rows := string(appendRows(nil, []row{{nil, int64(-1), uint64(math.MaxUint64), 0.1, "text",
		[]byte{0, 0xff}, ""}, {[]byte{}}, {}}))
	state := cellState{{view: 1, state: a, digest: 5}, {view: 9, state: b, digest: 0},
		{view: 300, state: a, digest: math.MaxUint64, kept: rows}}
	got, err := parseState(string(state.append(nil)))
	want := cellState{state[0], state[2], state[1]} // views with the same state are adjacent
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v (%v)", state, got, err)
	}
	back, err := parseRows(rows)
	if err != nil || string(appendRows(nil, back)) != rows || len(back) != 3 {
		t.Errorf("rows became %v (%v)", back, err)
	}
}

func TestSevenViewsOfACellShareASegment(t *testing.T) {
	var c cellState
	for i := range 7 {
		c = append(c, viewState{view: uint32(i + 1), state: replicator.State{Version: 1_700_000_000_000_000_000,
			Order: 1 << 50}, digest: math.MaxUint64})
	}
	if n := len(c.append(nil)); n > 100 {
		t.Errorf("the state takes %d bytes", n)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add(cellState{{view: 1, digest: 5, kept: "kept"}, {view: 2, state: replicator.Unseen}}.append(nil))
	f.Add([]byte{stateFormat, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := parseState(string(b))
		if err != nil {
			return
		}
		again, err := parseState(string(state.append(nil)))
		if err != nil || len(again) != len(state) {
			t.Errorf("%+v became %+v (%v)", state, again, err)
		}
		for _, v := range state {
			if got := again.find(v.view); got == nil || !reflect.DeepEqual(*got, v) {
				t.Errorf("%+v became %+v", v, got)
			}
		}
	})
}

func FuzzParseRows(f *testing.F) {
	f.Add(appendRows(nil, []row{{nil, int64(1), "s", []byte("b"), 0.5, uint64(1)}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := parseRows(string(b))
		if err != nil {
			return
		}
		stored := appendRows(nil, rows)
		again, err := parseRows(string(stored))
		if err != nil || !bytes.Equal(appendRows(nil, again), stored) {
			t.Errorf("%v became %v (%v)", rows, again, err)
		}
	})
}

func FuzzConversionNeverPanicsOrShowsItsValue(f *testing.F) {
	f.Add("2009-02-27T18:30:05.125+09:00", "datetime")
	f.Add("-1.5e3", "decimal")
	f.Add("71f0c4d2-2918-44cc-a2df-6f486e96e37c", "binary")
	f.Fuzz(func(t *testing.T, text, typ string) {
		c := &column{name: "v", typ: typ, declared: typ, chars: 16, bytes: 16, precision: 10, scale: 2,
			charset: "utf8mb4", members: []string{"a"}}
		if !c.known() {
			return
		}
		for _, v := range []any{text, []byte(text), replicator.Number(text), replicator.RawJSON(text), []any{text},
			replicator.ObjectOf(map[string]any{text: text})} {
			got, err := c.convert(v)
			if err != nil {
				if len(text) > 20 && bytes.Contains([]byte(err.Error()), []byte(text)) {
					t.Errorf("the reason shows the value: %v", err)
				}
				continue
			}
			switch got.(type) {
			case nil, int64, uint64, float64, string, []byte:
			default:
				t.Errorf("%T in %s became %T", v, typ, got)
			}
		}
	})
}

func TestSourcesHaveRangesOfTheirOwn(t *testing.T) {
	for _, source := range []string{"", "a", "\xff", "a\xff"} {
		first, end := sourceRange(source)
		for _, other := range []string{"", "a", "ab", "b", "\xff", "\xff\xff"} {
			id := []byte(entityID(other, "\xff\xff"))
			inside := bytes.Compare(id, first) >= 0 && bytes.Compare(id, end) < 0
			if inside != (source == other) {
				t.Errorf("an entity of source %q is in the range of %q: %v", other, source, inside)
			}
		}
	}
}
