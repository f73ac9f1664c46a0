package replicator_test

import (
	"math"
	"testing"

	"replicator"
)

func TestAppendJSONIsExactAndSorted(t *testing.T) {
	tests := []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{true, `true`},
		{int64(math.MinInt64), `-9223372036854775808`},
		{uint64(math.MaxUint64), `18446744073709551615`},
		{replicator.Number("1.50"), `1.50`},
		{1.5, `1.5`},
		{0.0, `0`},
		{1e21, `1e+21`},
		{1e20, `100000000000000000000`},
		{1e-7, `1e-07`},
		{math.NaN(), `null`},
		{math.Inf(-1), `null`},
		{"a\"\\\n\r\t\x00\x7f é☃<&>", "\"a\\\"\\\\\\n\\r\\t\\u0000\x7f é☃<&>\""},
		{"x\xffy", "\"x\ufffdy\""},
		{[]byte{0, 0xff}, `"00ff"`},
		{replicator.RawJSON(`{"a": 1.0}`), `{"a": 1.0}`},
		{[]any{}, `[]`},
		{[]any{int64(1), nil}, `[1,null]`},
		{replicator.ObjectOf(map[string]any{"b": int64(1), "a": replicator.Object{}}), `{"a":{},"b":1}`},
	}
	for _, tt := range tests {
		if got := string(replicator.AppendJSON([]byte("~"), tt.value)); got != "~"+tt.want {
			t.Errorf("AppendJSON(%#v) = %s, want %s", tt.value, got, tt.want)
		}
	}
}

func TestWhatJSONCanHoldAsItIs(t *testing.T) {
	deep := func(n int) (v any) {
		for range n {
			v = []any{replicator.ObjectOf(map[string]any{"a": v})}
		}
		return v
	}
	tests := []struct {
		value any
		why   string
	}{
		{nil, ""}, {int64(-1 << 63), ""}, {uint64(1<<64 - 1), ""}, {replicator.Number("1.10"), ""}, {[]byte{0xff}, ""},
		{replicator.ObjectOf(map[string]any{"é": []any{"ü", nil, 0.5}}), ""}, {replicator.RawJSON(`{"a": 1}`), ""},
		{math.NaN(), "it is not a finite number, so JSON can't express it"},
		{[]any{math.Inf(-1)}, "it is not a finite number, so JSON can't express it"},
		{replicator.ObjectOf(map[string]any{"a": "\xff"}), "it is text that is not valid UTF-8"},
		{replicator.ObjectOf(map[string]any{"\xff": "a"}), "it has a member whose name is not valid UTF-8"},
		{deep(5), ""}, {deep(6), "it is nested more than 10 deep"},
		{[]any{int8(1)}, "a int8 can't be written as JSON"},
	}
	for _, test := range tests {
		why := ""
		text, err := replicator.AppendExactJSON(nil, test.value, 10)
		if err != nil {
			why = err.Error()
		}
		if why != test.why {
			t.Errorf("%v: %q, want %q", test.value, why, test.why)
		}
		if err == nil && string(text) != string(replicator.AppendJSON(nil, test.value)) {
			t.Errorf("%v: %s, unlike what AppendJSON says", test.value, text)
		}
	}
}
