package codec

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"replicator"
)

func mustNew(t testing.TB, name string) *Codec {
	t.Helper()
	c, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestValuesKeepEveryDigit(t *testing.T) {
	tests := []struct {
		text string
		want any
	}{
		{`0`, int64(0)},
		{`-0`, int64(0)},
		{`9007199254740993`, int64(9007199254740993)},
		{`9223372036854775807`, int64(math.MaxInt64)},
		{`9223372036854775808`, uint64(1 << 63)},
		{`18446744073709551615`, uint64(math.MaxUint64)},
		{`18446744073709551616`, replicator.Number("18446744073709551616")},
		{`-9223372036854775808`, int64(math.MinInt64)},
		{`-9223372036854775809`, replicator.Number("-9223372036854775809")},
		{`1.50`, replicator.Number("1.50")},
		{`1.0`, replicator.Number("1.0")},
		{`1e3`, replicator.Number("1e3")},
		{`-1E+400`, replicator.Number("-1E+400")},
		{`true`, true},
		{`false`, false},
		{`null`, nil},
		{`""`, ""},
		{`"aé☃\u00e9\n\/\ud83d\ude00"`, "aé☃é\n/😀"},
		{`[]`, []any{}},
		{`[1,"x",[null]]`, []any{int64(1), "x", []any{nil}}},
		{`{"a":{"b":[]}}`, replicator.ObjectOf(map[string]any{"a": replicator.ObjectOf(map[string]any{"b": []any{}})})},
	}
	for _, tt := range tests {
		got, err := JSON([]byte(" " + tt.text + "\n"))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("JSON(%s) = %#v, %v; want %#v", tt.text, got, err, tt.want)
		}
	}
}

func TestBadBodiesAreErrorsThatNameAPlaceAndNoContent(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"empty", "", "the body is empty"},
		{"blank", " \n", "json: the body is empty, at offset 2"},
		{"array", ` [1]`, "json: the body is a JSON array, want an object, at offset 1"},
		{"string", `"secret"`, "json: the body is a JSON string, want an object, at offset 0"},
		{"number", `-1`, "json: the body is a JSON number, want an object, at offset 0"},
		{"boolean", `true`, "json: the body is a JSON boolean, want an object, at offset 0"},
		{"null", `null`, "json: the body is a JSON null, want an object, at offset 0"},
		{"not json", `secret`, "json: the body is not JSON, at offset 0"},
		{"no word of JSON's", `not json`, "json: the body is not JSON, at offset 0"},
		{"open", `{`, "json: the document is cut short, at offset 1"},
		{"cut after name", `{"secret"`, "json: expected a colon after a member's name, at offset 9"},
		{"cut after colon", `{"a":`, "json: the document is cut short, at offset 5"},
		{"cut after value", `{"a":1`, "json: the document is cut short, at offset 6"},
		{"cut in string", `{"a":"secret`, "json: a string is not closed, at offset 12"},
		{"comma at the end", `{"a":1,}`, "json: expected a member's name in double quotes, at offset 7"},
		{"comma in list", `{"a":[1,]}`, "json: expected a value, at offset 8"},
		{"wrong bracket", `{"a":[1}`, "json: expected a comma or a closing bracket, at offset 7"},
		{"trailing", `{"a":1} {`, "json: something follows the end of the document, at offset 8"},
		{"leading zero", `{"a":01}`, "json: expected a comma or a closing bracket, at offset 6"},
		{"plus", `{"a":+1}`, "json: expected a value, at offset 5"},
		{"bare minus", `{"a":-}`, "json: a number has no digits, at offset 6"},
		{"bare point", `{"a":1.}`, "json: a number has no digits after its point, at offset 7"},
		{"bare exponent", `{"a":1e}`, "json: a number has no digits in its exponent, at offset 7"},
		{"NaN", `{"a":NaN}`, "json: expected a value, at offset 5"},
		{"word", `{"a":nil}`, "json: expected a value, at offset 5"},
		{"control", "{\"a\":\"x\ny\"}", "json: a string has a control character that is not escaped, at offset 7"},
		{"utf-8", "{\"a\":\"x\xff\"}", "json: a string is not valid UTF-8, at offset 7"},
		{"utf-8 surrogate", "{\"a\":\"\xed\xa0\x80\"}", "json: a string is not valid UTF-8, at offset 6"},
		{"utf-8 in name", "{\"\xff\":1}", "json: a string is not valid UTF-8, at offset 2"},
		{"escape", `{"a":"\x"}`, "json: a string has an escape that is not allowed, or half of a surrogate pair, at offset 6"},
		{"high surrogate", `{"a":"\ud83d"}`, "json: a string has an escape that is not allowed, or half of a surrogate pair, at offset 6"},
		{"high surrogate twice", `{"a":"\ud83d\ud83d"}`, "json: a string has an escape that is not allowed, or half of a surrogate pair, at offset 6"},
		{"low surrogate", `{"a":"\ude00"}`, "json: a string has an escape that is not allowed, or half of a surrogate pair, at offset 6"},
		{"deep", `{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + "}", "json: the body nests deeper than 512 levels, at offset 516"},
	}
	c := mustNew(t, "json")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := make([]any, 1)
			errs := map[string]error{
				"wanted":   c.Decoder([]string{"a"}).Decode([]byte(tt.body), values),
				"skipped":  c.Decoder([]string{"b"}).Decode([]byte(tt.body), values),
				"document": second(c.Document([]byte(tt.body))),
			}
			for mode, err := range errs {
				if err == nil || err.Error() != tt.want {
					t.Errorf("%s: got %v, want %s", mode, err, tt.want)
				}
			}
		})
	}
	if _, err := c.Document(nil); err == nil || err.Error() != "the body is NULL" {
		t.Errorf("nil body: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestDecoderReturnsTheWantedMembersInTheirOrder(t *testing.T) {
	body := []byte(`{"n":1,"skip":{"a":[1,2,{"b":"}"}]},"s":"x","n":2,"em\u0061il":"e","nul":1,"nul":null,"":"empty"}`)
	for _, extra := range []int{0, 20} { // the decoder uses a map only for many names
		names := []string{"s", "n", "email", "nul", "gone", ""}
		for i := range extra {
			names = append(names, "extra"+strings.Repeat("x", i))
		}
		values := make([]any, len(names))
		values[4] = "left from another body"
		if err := mustNew(t, "json").Decoder(names).Decode(body, values); err != nil {
			t.Fatal(err)
		}
		want := append([]any{"x", int64(2), "e", nil, nil, "empty"}, make([]any, extra)...)
		if !reflect.DeepEqual(values, want) {
			t.Errorf("got %#v, want %#v", values, want)
		}
	}
}

func TestDeepestBodyDecodes(t *testing.T) {
	body := `{"a":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + "}"
	if _, err := mustNew(t, "json").Document([]byte(body)); err != nil {
		t.Fatal(err)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for _, name := range []string{"", "yaml", "json+json", "rot13+json", "json+"} {
		if _, err := New(name); err == nil {
			t.Errorf("New(%q) is no error", name)
		}
	}
}

// The next body is decompressed into the same memory, so values must not refer to it.
func TestValuesOfACompressedBodyOwnTheirMemory(t *testing.T) {
	d := mustNew(t, "zlib+json").Decoder([]string{"a", "b", "c"})
	values := make([]any, 3)
	if err := d.Decode(compressed(t, "zlib", []byte(`{"a":"text","b":{"k":["v"]},"c":1.5}`)), values); err != nil {
		t.Fatal(err)
	}
	next := compressed(t, "zlib", []byte(`{"a":"####","b":{"#":["#"]},"c":9.9}`))
	if err := d.Decode(next, make([]any, 3)); err != nil {
		t.Fatal(err)
	}
	want := []any{"text", replicator.ObjectOf(map[string]any{"k": []any{"v"}}), replicator.Number("1.5")}
	if !reflect.DeepEqual(values, want) {
		t.Errorf("got %#v", values)
	}
}

// The caller may reuse the memory that a JSON column's value was decoded from.
func TestValuesOfAJSONColumnOwnTheirMemory(t *testing.T) {
	text := []byte(`["text",{"k":"v"},1.5]`)
	value, err := JSON(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		text[i] = '#'
	}
	want := []any{"text", replicator.ObjectOf(map[string]any{"k": "v"}), replicator.Number("1.5")}
	if !reflect.DeepEqual(value, want) {
		t.Errorf("got %#v", value)
	}
}

func TestTextsOfAPlainBodyAreNotCopied(t *testing.T) {
	body := []byte(`{"a":"text","b":"` + strings.Repeat("x", 1000) + `","c":1.5}`)
	d, values := mustNew(t, "json").Decoder([]string{"a", "b", "c"}), make([]any, 3)
	n := testing.AllocsPerRun(100, func() {
		if err := d.Decode(body, values); err != nil {
			t.Error(err)
		}
	})
	if n > 3 { // one for each value that is converted to an interface
		t.Errorf("%v allocations", n)
	}
}

// model decodes with encoding/json and converts the values to the types that this package returns.
func model(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return modelValue(v), nil
}

func modelValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return replicator.Number(v)
		}
		var i int64
		if json.Unmarshal([]byte(v), &i) == nil {
			return i
		}
		var u uint64
		if json.Unmarshal([]byte(v), &u) == nil {
			return u
		}
		return replicator.Number(v)
	case []any:
		for i := range v {
			v[i] = modelValue(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = modelValue(v[k])
		}
		return replicator.ObjectOf(v)
	}
	return v
}

// stricter reports whether err is about something that encoding/json accepts and this package refuses: invalid UTF-8,
// lone surrogates or deep nesting.
func stricter(err error) bool {
	for _, s := range []string{"not valid UTF-8", "surrogate", "nests deeper"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,null,"x\ud83d\ude00"],"a":{"c":-1.5e+3}}`, `[1,2]`, `"x"`, ` {} `, `{"a":18446744073709551616}`, `{"a":"\ud800"}`, `01`, "{\"\xff\":0}"} {
		f.Add([]byte(s))
	}
	c := mustNew(f, "json")
	f.Fuzz(func(t *testing.T, text []byte) {
		want, wantErr := model(text)
		got, err := JSON(text)
		if err != nil {
			if wantErr == nil && !stricter(err) {
				t.Fatalf("we refuse what encoding/json accepts: %v", err)
			}
		} else if wantErr != nil {
			t.Fatalf("we accept what encoding/json refuses: %v", wantErr)
		} else if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %#v, want %#v", got, want)
		}

		doc, docErr := c.Document(text)
		object, isObject := got.(replicator.Object)
		if (docErr == nil) != (err == nil && isObject) {
			t.Fatalf("Document: %v; JSON: %v", docErr, err)
		}
		values := make([]any, 2)
		if e := c.Decoder([]string{"a", "b"}).Decode(text, values); (e == nil) != (docErr == nil) {
			t.Fatalf("Decode: %v; Document: %v", e, docErr)
		}
		if docErr == nil && !reflect.DeepEqual(values, []any{object.Get("a"), object.Get("b")}) {
			t.Fatalf("Decode gave %#v of %#v", values, doc)
		}
		if err != nil {
			return
		}
		out := replicator.AppendJSON(nil, got)
		if !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("AppendJSON wrote %q", out)
		}
		if again, err := JSON(out); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("AppendJSON wrote %s, read back as %#v, %v", out, again, err)
		}
	})
}

// userBody is a body of the jogchat example.
var userBody = []byte(`{"id":"71f0c4d2-2918-44cc-a2df-6f486e96e37c","username":"ada_lovelace","email":"ada.lovelace@example.com",` +
	`"phone":5551234567,"password":"$2b$12$KIXQ1vG0ZQYb3pYf9m7yUeW1m3nq5Qk0m2Wc5l5n8Yx7Jc9s0dJ2a","activate":true,"image":"avatars/71f0c4d2.png","bio":""}`)

func BenchmarkDecodeThreeOfEight(b *testing.B) {
	d := mustNew(b, "json").Decoder([]string{"username", "email", "phone"})
	values := make([]any, 3)
	b.ReportAllocs()
	b.SetBytes(int64(len(userBody)))
	for b.Loop() {
		if err := d.Decode(userBody, values); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkObject decodes a small object and formats it as text, as a Redis hash with an object field does.
func BenchmarkObject(b *testing.B) {
	body := []byte(`{"id":1,"address":{"city":"San Francisco"}}`)
	d := mustNew(b, "json").Decoder([]string{"address"})
	values := make([]any, 1)
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(body, values); err != nil {
			b.Fatal(err)
		}
		text = replicator.AppendJSON(text[:0], values[0])
	}
}
