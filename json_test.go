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
		{map[string]any{"b": int64(1), "a": map[string]any{}}, `{"a":{},"b":1}`},
	}
	for _, tt := range tests {
		if got := string(replicator.AppendJSON([]byte("~"), tt.value)); got != "~"+tt.want {
			t.Errorf("AppendJSON(%#v) = %s, want %s", tt.value, got, tt.want)
		}
	}
}
