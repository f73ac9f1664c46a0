package seen

import (
	"strings"
	"testing"

	"replicator"
)

func TestAColumnHoldsWhatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		values []any
		want   string
	}{
		"short texts":                   {[]any{"a"}, "VARCHAR(64)"},
		"texts":                         {[]any{strings.Repeat("a", 10_000)}, "TEXT"},
		"long texts":                    {[]any{strings.Repeat("a", 70_000)}, "MEDIUMTEXT"},
		"very long texts":               {[]any{strings.Repeat("a", 1<<22)}, "LONGTEXT"},
		"bytes":                         {[]any{make([]byte, 10)}, "VARBINARY(64)"},
		"long bytes":                    {[]any{make([]byte, 2000)}, "BLOB"},
		"very long bytes":               {[]any{make([]byte, 70_000)}, "MEDIUMBLOB"},
		"floats":                        {[]any{0.5, int64(7)}, "DOUBLE"},
		"floats and large integers":     {[]any{0.5, uint64(1<<64 - 1)}, ""},
		"floats and small integers":     {[]any{replicator.Number("1e22"), int64(-1 << 53)}, "DOUBLE"},
		"floats and very low integers":  {[]any{replicator.Number("1e22"), int64(-1<<53 - 1)}, ""},
		"decimals and large integers":   {[]any{replicator.Number("0.5"), uint64(1<<64 - 1)}, "DECIMAL(50,20)"},
		"integers beyond 64 bits alone": {[]any{replicator.Number("18446744073709551616")}, "DECIMAL(65,0)"},
	} {
		var s Values
		for _, v := range c.values {
			s.Add(v)
		}
		if got := s.Row("x"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
