package sqlname

import "testing"

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{"a": "`a`", "a`b": "`a``b`", "a\\' \"b.c": "`a\\' \"b.c`", "": "``"} {
		if got := Quote(name); got != want {
			t.Errorf("%q becomes %s, want %s", name, got, want)
		}
	}
}
