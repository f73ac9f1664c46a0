package codec

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"replicator"
)

// fixture is a body that Python wrote, and the expected properties. In these, {"hex": …} stands for bytes.
type fixture struct {
	Name   string
	Body   string          `json:"body_hex"`
	Expect json.RawMessage `json:"expect"`
}

func readFixtures(t testing.TB, name string) []fixture {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var list []fixture
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var f fixture
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

// expected converts a fixture's properties to the values that a pickle decodes to.
func expected(t testing.TB, v any) any {
	t.Helper()
	switch v := v.(type) {
	case replicator.Number: // a pickle writes such a number as a float
		if !strings.ContainsAny(string(v), ".eE") {
			return v
		}
		var f float64
		if err := json.Unmarshal([]byte(v), &f); err != nil {
			t.Fatal(err)
		}
		return f
	case []any:
		for i := range v {
			v[i] = expected(t, v[i])
		}
	case replicator.Object:
		if digits, ok := v.Get("hex").(string); ok && len(v) == 1 {
			b, err := hex.DecodeString(digits)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if digits, ok := v.Get("number").(string); ok && len(v) == 1 {
			return replicator.Number(digits)
		}
		if what, ok := v.Get("unread").(string); ok && len(v) == 1 {
			return replicator.Unread(what)
		}
		for i := range v {
			v[i].Value = expected(t, v[i].Value)
		}
	}
	return v
}

func TestPicklesThatPythonWrote(t *testing.T) {
	c := mustNew(t, "zlib+pickle")
	for _, f := range readFixtures(t, "pickles.jsonl") {
		t.Run(f.Name, func(t *testing.T) {
			body, err := hex.DecodeString(f.Body)
			if err != nil {
				t.Fatal(err)
			}
			want, err := JSON(f.Expect)
			if err != nil {
				t.Fatal(err)
			}
			want = expected(t, want)
			got, err := c.Document(body)
			if err != nil || !reflect.DeepEqual(any(got), want) {
				t.Errorf("got %#v, %v\nwant %#v", got, err, want)
			}
			values := make([]any, 2)
			if err := c.Decoder([]string{"link", "gone"}).Decode(body, values); err != nil ||
				!reflect.DeepEqual(values, []any{got.Get("link"), nil}) {
				t.Errorf("Decode gave %v, %v", values, err)
			}
		})
	}
}

func TestPicklesOfPythonsOwnClasses(t *testing.T) {
	for _, f := range readFixtures(t, "classes.jsonl") {
		t.Run(f.Name, func(t *testing.T) {
			body, err := hex.DecodeString(f.Body)
			if err != nil {
				t.Fatal(err)
			}
			text, err := JSON(f.Expect)
			if err != nil {
				t.Fatal(err)
			}
			want := expected(t, text).(replicator.Object)
			got, err := mustNew(t, "pickle").Document(body)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range want {
				if !reflect.DeepEqual(got.Get(m.Name), m.Value) {
					t.Errorf("%s: got %#v, want %#v", m.Name, got.Get(m.Name), m.Value)
				}
			}
			if len(got) != len(want) {
				t.Errorf("got %d members, want %d", len(got), len(want))
			}
		})
	}
}

func TestPickleInstructions(t *testing.T) {
	tests := []struct {
		name, pickle string
		want         any
	}{
		{"int", "I-5\n.", int64(-5)},
		{"long in text", "L18446744073709551616L\n.", replicator.Number("18446744073709551616")},
		{"long without its L", "L5\n.", int64(5)},
		{"uint64", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", uint64(1<<64 - 1)},
		{"smallest int64", "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", int64(-1 << 63)},
		{"below it", "\x8b\x09\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f\xff.", replicator.Number("-9223372036854775809")},
		{"no digits", "\x8a\x00.", int64(0)},
		{"booleans in text", "(I01\nI00\nl.", []any{true, false}},
		{"float in text", "F0.1\n.", 0.1},
		{"string with escapes", `S'a\'\\\n\xe9\x00'` + "\n.", []byte("a'\\\n\xe9\x00")},
		{"string in double quotes", `S"it's"` + "\n.", "it's"},
		{"text of several lines", "U\x04a\n\tb.", "a\n\tb"},
		{"emoji of parts", "U\x0b\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7.", "\U0001f469\u200d\U0001f467"},
		{"raw unicode", "Vcaf\xe9 \\u2603\\U0001f600\\ud83d\\ude00\\x\n.", "café ☃😀😀\\x"},
		{"tuples", "(K\x01K\x02K\x03tK\x04\x85\x86.", []any{[]any{int64(1), int64(2), int64(3)}, []any{int64(4)}}},
		{"list twice", "]q\x00h\x00\x86h\x00K\x07a0.", []any{[]any{int64(7)}, []any{int64(7)}}},
		{"set", "\x8f(K\x01K\x02\x90.", []any{int64(1), int64(2)}},
		{"frozenset", "(K\x01\x91.", []any{int64(1)}},
		{"set of Python 2", "c__builtin__\nset\n((lp0\nK\x01atR.", []any{int64(1)}},
		{"bytes of Python 3 in protocol 2",
			"\x80\x02c_codecs\nencode\nX\x03\x00\x00\x00a\xc3\xbfX\x06\x00\x00\x00latin1\x86R.", []byte("a\xff")},
		{"no bytes of Python 3 in protocol 2", "c__builtin__\nbytes\n)R.", ""},
		{"16 bytes of Python 3 that could be text", "C\x100123456789abcdef.", []byte("0123456789abcdef")},
		{"16 bytes of Python 3 in protocol 2, the same",
			"\x80\x02c_codecs\nencode\nX\x10\x00\x00\x000123456789abcdefX\x06\x00\x00\x00latin1\x86R.",
			[]byte("0123456789abcdef")},
		{"16 characters of Python 2", "U\x100123456789abcdef.", "0123456789abcdef"},
		{"fewer bytes of Python 3", "C\x030ab.", "0ab"},
		{"bytearray", "\x96\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01.", []byte{0, 1}},
		{"dictionary", "(U\x01aK\x01K\x02K\x03U\x01aNd.", replicator.ObjectOf(map[string]any{"a": nil, "2": int64(3)})},
		{"ordered dictionary", "\x8c\x0bcollections\x8c\x0bOrderedDict\x93)R(\x8c\x01aK\x01u.",
			replicator.ObjectOf(map[string]any{"a": int64(1)})},
		{"ordered dictionary of Python 2", "ccollections\nOrderedDict\n((l(lU\x01aaK\x01aatR.",
			replicator.ObjectOf(map[string]any{"a": int64(1)})},
		{"instance of Python 2", "(lp0\n(iapp\nLink\np1\n(dp2\nS'url'\nI1\nsba.",
			[]any{replicator.Unread(`an object of the Python class "app.Link"`)}},
		{"instance in binary", "](capp\nLink\no}U\x01aK\x01sba.",
			[]any{replicator.Unread(`an object of the Python class "app.Link"`)}},
		{"persistent id", "]Pxyz\naK\x05Qa.", []any{replicator.Unread(`an object of the Python class "of a persistent id"`),
			replicator.Unread(`an object of the Python class "of a persistent id"`)}},
		{"damaged date", "cdatetime\ndate\n(U\x04\x07\xe8\x02\x1etR.",
			replicator.Unread(`an object of the Python class "datetime.date" with an invalid state`)},
		{"infinite", "G\x7f\xf0\x00\x00\x00\x00\x00\x00.", notFinite},
		{"popped", "K\x01K\x020(K\x031(0.", int64(1)},
		{"duplicate", "K\x012\x86.", []any{int64(1), int64(1)}},
	}
	for _, tt := range tests {
		if got, err := decodePickle([]byte(tt.pickle), nil); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %#v, %v; want %#v", tt.name, got, err, tt.want)
		}
	}
}

func TestBadPicklesAreErrors(t *testing.T) {
	// each level refers to the previous level three times
	laughs := "]K\x01a" + strings.Repeat("22\x87\x85", 30) + "."
	echo := "X\x50\xc3\x00\x00" + strings.Repeat("a", 50_000) + strings.Repeat("22\x87", 7) + "." // one text, 2,187 times
	tests := []struct{ name, pickle, want string }{
		{"cut short", "}", "pickle: the body is cut short"},
		{"cut in a text", "X\x05\x00\x00\x00ab", "pickle: the body is cut short, at offset 0"},
		{"length that lies", "\x8d\xff\xff\xff\xff\xff\xff\xff\xffab", "pickle: the body is cut short, at offset 0"},
		{"trailing", "}.x", "pickle: something follows the end of the body"},
		{"nothing", ".", "pickle: the pickle takes a value that is not on its stack"},
		{"empty stack", "}a.", "pickle: the pickle takes a value that is not on its stack, at offset 1"},
		{"below a mark", "}(a.", "pickle: the pickle takes a value that is not on its stack, at offset 2"},
		{"odd dictionary", "(K\x01d.", "pickle: the pickle takes a value that is not on its stack, at offset 3"},
		{"memo", "h\x07.", "pickle: the pickle loads a memo entry that it did not store, at offset 0"},
		{"list", "].", "pickle: the body is a list, want a map"},
		{"class", "cos\nsystem\n(U\x06secrettR.",
			`pickle: the body is an object of the Python class "os.system", want a map`},
		{"class alone", "cos\nsystem\n.", `pickle: the body is the Python class "os.system", want a map`},
		{"instruction", "}?.", "pickle: the pickle contains the unknown instruction 0x3f, at offset 1"},
		{"protocol", "\x80\x06}.", "pickle: pickle protocol 6 is newer than 5, at offset 0"},
		{"text", "X\x01\x00\x00\x00\xff.", "pickle: a string is not valid UTF-8, at offset 0"},
		{"half a pair", "V\\ud83d\n.", "pickle: a string is not valid UTF-8, at offset 0"},
		{"long", "\x8b\x00\x10\x00\x00" + strings.Repeat("\x01", 4096) + ".",
			"pickle: an integer has more than 512 bytes, at offset 0"},
		{"key", "}]Ns.", "pickle: a map has a key that is neither text nor an integer"},
		{"in itself", "}q\x00U\x01ah\x00s.", "pickle: the body nests deeper than 512 levels"},
		{"deep", strings.Repeat("]", 600) + strings.Repeat("a", 599) + ".", "pickle: the body nests deeper than 512 levels"},
		{"echo", echo, "pickle: the pickle expands to more than 64 MiB"},
		{"laughs", laughs, "pickle: " + errMany.Error()},
	}
	c := mustNew(t, "pickle")
	for _, tt := range tests {
		if _, err := c.Document([]byte(tt.pickle)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func FuzzPickle(f *testing.F) {
	c := mustNew(f, "zlib+pickle")
	for _, fixture := range readFixtures(f, "classes.jsonl") {
		body, err := hex.DecodeString(fixture.Body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, fixture := range readFixtures(f, "pickles.jsonl") {
		body, err := hex.DecodeString(fixture.Body)
		if err != nil {
			f.Fatal(err)
		}
		err = c.unpack(body, func(pickle []byte) error {
			f.Add(append([]byte(nil), pickle...))
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, pickle []byte) {
		if v, err := decodePickle(pickle, nil); err == nil {
			checkModel(t, v)
		}
	})
}

// checkModel fails the test unless v consists of types that a decoder may return.
func checkModel(t *testing.T, v any) {
	t.Helper()
	out := replicator.AppendJSON(nil, v)
	if !json.Valid(out) {
		t.Fatalf("%#v has the JSON text %q", v, out)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, []byte, replicator.Number, replicator.Unread:
	case uint64:
		if v < 1<<63 {
			t.Fatalf("%d is a uint64 that fits an int64", v)
		}
	case string:
		if !replicator.ValidText(v) {
			t.Fatalf("%q is not valid UTF-8", v)
		}
	case []any:
		for _, e := range v {
			checkModel(t, e)
		}
	case replicator.Object:
		for i, m := range v {
			if !replicator.ValidText(m.Name) {
				t.Fatalf("%q is not valid UTF-8", m.Name)
			}
			if i > 0 && v[i-1].Name >= m.Name {
				t.Fatalf("%q stands before %q", v[i-1].Name, m.Name)
			}
			checkModel(t, m.Value)
		}
	default:
		t.Fatalf("%T is no value of ours", v)
	}
}
