package sqlname

import "testing"

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{"a": "`a`", "a`b": "`a``b`", "a\\' \"b.c": "`a\\' \"b.c`", "": "``"} {
		if got := Quote(name); got != want {
			t.Errorf("%q becomes %s, want %s", name, got, want)
		}
	}
}

func TestAccount(t *testing.T) {
	for current, want := range map[string]string{"a@%": "'a'@'%'", "a@b@10.%": "'a@b'@'10.%'",
		"o'x@::1": "'o''x'@'::1'", "@": "''@''"} {
		if got := Account(current); got != want {
			t.Errorf("%q becomes %s, want %s", current, got, want)
		}
	}
}
