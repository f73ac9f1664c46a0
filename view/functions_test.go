package view

import (
	"bytes"
	"strings"
	"testing"

	"replicator"
)

const keysDigits = "71f0c4d2291844cca2df6f486e96e37c"

func TestFunctionsOfBytes(t *testing.T) {
	const sum = "string(ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad)" // the hash of "abc"
	tests := []struct{ expr, body, want string }{
		{"=sha256(s)", `{"s":"abc"}`, sum},
		{"=md5(s)", `{"s":"abc"}`, "string(900150983cd24fb0d6963f7d28e17f72)"},
		{"=crc32(s)", `{"s":"abc"}`, "int64(891568578)"},
		{"=crc32(s)", `{"s":""}`, "int64(0)"},
		{"=crc32(s)", `{"s":"123456789"}`, "int64(3421780262)"},
		{"=hex(s)", `{"s":"aé"}`, "string(61c3a9)"},
		{"=base64(s)", `{"s":"?>~"}`, "string(Pz5+)"},
		{"=base64(s)", `{"s":"a"}`, "string(YQ==)"},
		{"=unhex(s)", `{"s":"61C3a9"}`, "[]uint8([97 195 169])"},
		{"=unhex(s)", `{"s":""}`, "[]uint8([])"},
		{"=uuid(s)", `{"s":"71F0C4D2291844CCA2DF6F486E96E37C"}`, "string(71f0c4d2-2918-44cc-a2df-6f486e96e37c)"},
		{"=uuid(s)", `{"s":"71f0c4d2-2918-44cc-a2df-6f486e96e37c"}`, "string(71f0c4d2-2918-44cc-a2df-6f486e96e37c)"},

		// The functions get the bytes of a binary value. Elsewhere in an expression the value is hexadecimal digits.
		{"=hex($row_key)", `{}`, "string(" + keysDigits + ")"},
		{"=uuid($row_key)", `{}`, "string(71f0c4d2-2918-44cc-a2df-6f486e96e37c)"},
		{"=base64($row_key)", `{}`, "string(cfDE0ikYRMyi329IbpbjfA==)"},
		{"=md5($row_key) == md5(unhex($row_key + ''))", `{}`, "bool(true)"},
		{"=md5($row_key) == md5($row_key + '')", `{}`, "bool(false)"},
		{"=hex(s ?? $row_key)", `{}`, "string(" + keysDigits + ")"},
		{"=hex(s == 'a' ? $row_key : s)", `{"s":"a"}`, "string(" + keysDigits + ")"},
		{"=uuid($row_key) + $row_key", `{}`, "string(71f0c4d2-2918-44cc-a2df-6f486e96e37c" + keysDigits + ")"},
		{"=$row_key | hex()", `{}`, "string(" + keysDigits + ")"},

		// The functions get all digits of a number.
		{"=hex(n)", `{"n":12}`, "string(3132)"},
		{"=hex(n)", `{"n":1.50}`, "string(312e3530)"},
		{"=hex(n)", `{"n":18446744073709551615}`, "string(3138343436373434303733373039353531363135)"},
		{"=hex(n + 1)", `{"n":18446744073709551615}`, "string(3138343436373434303733373039353531363136)"},
		{"=hex(n + 0.5)", `{"n":1}`, "string(312e35)"},

		{"=sha256(lower(trim(s)))", `{"s":" ABC "}`, sum},
		{"=map(l, sha256(#))", `{"l":["abc"]}`, "[]interface {}([" + strings.Trim(sum, "string()") + "])"},
		{"=md5(md5)", `{"md5":"abc"}`, "string(900150983cd24fb0d6963f7d28e17f72)"},
	}
	for _, tt := range tests {
		if got := evalField(t, tt.expr, tt.body); got != tt.want {
			t.Errorf("%s over %s: got %s, want %s", tt.expr, tt.body, got, tt.want)
		}
	}
}

func TestAFunctionOfBytesOverSomethingMissingIsMissing(t *testing.T) {
	for name := range byteFunctions() {
		for _, expr := range []string{"=" + name + "(s)", "=" + name + "(a.b)", "=" + name + "(a ?? s)",
			"=" + name + "(find(l, # == 'x'))", "=" + name + "(s) ?? nil"} {
			if got := evalField(t, expr, `{"s":null,"l":[]}`); got != missing {
				t.Errorf("%s: got %s", expr, got)
			}
		}
		if got := evalField(t, "="+name+"(s) ?? 'none'", `{}`); got != "string(none)" {
			t.Errorf("%s(s) ?? 'none': got %s", name, got)
		}
	}
}

func TestWhatHasNoBytesIsAnErrorWithoutValues(t *testing.T) {
	for name := range byteFunctions() {
		for body, sort := range map[string]string{`{"s":true}`: "a boolean", `{"s":["secret"]}`: "a list",
			`{"s":{"a":"secret"}}`: "an object"} {
			for _, argument := range []string{"s", "first([s])"} {
				got := evalField(t, "="+name+"("+argument+")", body)
				want := "error: view v: =" + name + "(" + argument + "): invalid argument for " + name + " (" + sort +
					" is not a text, a number or a binary value) (at character 1)"
				if got != want {
					t.Errorf("%s(%s) over %s:\ngot  %s\nwant %s", name, argument, body, got, want)
				}
			}
		}
	}
	for _, tt := range []struct{ expr, body, want string }{
		{"=unhex(s)", `{"s":"secret"}`, "invalid argument for unhex (the text is not an even number of hexadecimal digits)"},
		{"=unhex(s)", `{"s":"abc"}`, "invalid argument for unhex (the text is not an even number of hexadecimal digits)"},
		{"=unhex($row_key)", `{}`, "invalid argument for unhex (a binary value is not a text of hexadecimal digits)"},
		{"=uuid(s)", `{"s":"a secret of 16 b"}`, "invalid argument for uuid (the text is not a UUID's 32 hexadecimal digits)"},
		{"=uuid(unhex(s))", `{"s":"00"}`, "invalid argument for uuid (a UUID has 16 bytes, but the value has 1)"},
	} {
		want := "error: view v: " + tt.expr + ": " + tt.want + " (at character 1)"
		if got := evalField(t, tt.expr, tt.body); got != want {
			t.Errorf("%s over %s:\ngot  %s\nwant %s", tt.expr, tt.body, got, want)
		}
	}
}

// FuzzFunctions checks that no value makes a function panic, that errors don't contain the value, and that unhex reads
// what hex writes.
func FuzzFunctions(f *testing.F) {
	for _, s := range []string{"", "abc", "0g", keysDigits, "71F0C4D2-2918-44CC-A2DF-6F486E96E37C", "\xff\x00"} {
		f.Add(s)
	}
	functions := byteFunctions()
	f.Fuzz(func(t *testing.T, s string) {
		for name, function := range functions {
			for _, v := range []any{s, []byte(s), replicator.Number(s)} {
				b, binary, err := bytesOf(v)
				if err != nil || string(b) != s {
					t.Fatalf("%T: %q, %v", v, b, err)
				}
				if result, err := function.of(b, binary); err == nil {
					if _, err := fromExpr(result); err != nil {
						t.Fatalf("%s of %q: %v", name, s, err)
					}
				}
			}
		}
		digits, err := functions["hex"].of([]byte(s), true)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := unhex([]byte(digits.(string)), false); err != nil || !bytes.Equal(b.([]byte), []byte(s)) {
			t.Fatalf("unhex(hex(%q)) is %q, %v", s, b, err)
		}
	})
}
