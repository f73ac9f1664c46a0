package replicator_test

import (
	"math"
	"testing"

	"replicator"
)

// Sinks and stores save encoded keys, so the encoding must never change (docs/upgrade.md).
func TestTheStoredFormOfKeys(t *testing.T) {
	k, err := replicator.MakeKey(int64(-2), uint64(math.MaxUint64), uint64(3), "ü", []byte{0, 255},
		replicator.Number("1.50"))
	want := "i\x7f\xff\xff\xff\xff\xff\xff\xfe" + "u\xff\xff\xff\xff\xff\xff\xff\xff" +
		"i\x80\x00\x00\x00\x00\x00\x00\x03" + "s\x02ü" + "b\x02\x00\xff" + "s\x041.50"
	if err != nil || string(k) != want {
		t.Errorf("%q (%v), want %q", string(k), err, want)
	}
}

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

func TestFloatsAreShownByTheirDigits(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.1: "0.1", 1234567: "1234567", 1e6: "1000000", 25000000.5: "25000000.5",
		-3e20: "-300000000000000000000", 1e21: "1e+21", 0.000001: "0.000001", 5e-7: "5e-07",
	} {
		if got := replicator.FormatValue(f); got != want {
			t.Errorf("%g is shown as %s, want %s", f, got, want)
		}
	}
}
