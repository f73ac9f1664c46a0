package replicator_test

import (
	"math"
	"testing"

	"replicator"
)

func TestKeysShowTheirValues(t *testing.T) {
	for want, values := range map[string][]any{
		"":                     {},
		"-7":                   {int64(-7)},
		"18446744073709551615": {uint64(math.MaxUint64)},
		"00ff":                 {[]byte{0, 255}},
		"a:b%":                 {"a:b%"},
		"a%3Ab%25:c:d":         {"a:b%", "c:d"},
		"0a:-1:x":              {[]byte("\n"), int64(-1), "x"},
	} {
		k, err := replicator.MakeKey(values...)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.String(); got != want {
			t.Errorf("%v shows as %q, not %q", values, got, want)
		}
		if got := string(k.AppendString([]byte("key "))); got != "key "+want {
			t.Errorf("%v is appended as %q", values, got)
		}
	}
	for _, damaged := range []replicator.Key{"x", "i1234", "s\x05abc", "b\xff"} {
		if _, err := damaged.Values(); err == nil {
			t.Errorf("the damaged key %q has values", damaged)
		}
		if got := damaged.String(); len(got) != 2*len(damaged) {
			t.Errorf("the damaged key %q shows as %q, not as its bytes", damaged, got)
		}
	}
}
