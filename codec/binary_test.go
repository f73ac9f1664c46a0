package codec

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"replicator"
)

func unhex(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// binaryTest is a body in hexadecimal digits, and its value or the expected error.
type binaryTest struct {
	name, body string
	want       any
	err        string
}

func testBinary(t *testing.T, decode func([]byte, *wanted) (any, error), tests []binaryTest) {
	t.Helper()
	for _, tt := range tests {
		got, err := decode(unhex(t, tt.body), nil)
		switch {
		case tt.err != "":
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: got %v, want %s", tt.name, err, tt.err)
			}
		case err != nil || !reflect.DeepEqual(got, tt.want):
			t.Errorf("%s: got %#v, %v; want %#v", tt.name, got, err, tt.want)
		}
	}
}

func TestMsgpack(t *testing.T) {
	testBinary(t, decodeMsgpack, []binaryTest{
		{name: "nil", body: "c0"},
		{name: "booleans", body: "92 c2 c3", want: []any{false, true}},
		{name: "positive fixint", body: "7f", want: int64(127)},
		{name: "negative fixint", body: "e0", want: int64(-32)},
		{name: "uint8", body: "cc ff", want: int64(255)},
		{name: "uint16", body: "cd ffff", want: int64(65535)},
		{name: "uint32", body: "ce ffffffff", want: int64(1<<32 - 1)},
		{name: "uint64", body: "cf 7fffffffffffffff", want: int64(1<<63 - 1)},
		{name: "large uint64", body: "cf ffffffffffffffff", want: uint64(1<<64 - 1)},
		{name: "int8", body: "d0 80", want: int64(-128)},
		{name: "int16", body: "d1 8000", want: int64(-32768)},
		{name: "int32", body: "d2 80000000", want: int64(-1 << 31)},
		{name: "int64", body: "d3 8000000000000000", want: int64(-1 << 63)},
		{name: "float32", body: "ca 3fc00000", want: 1.5},
		{name: "float64", body: "cb 3fb999999999999a", want: 0.1},
		{name: "infinite", body: "cb 7ff0000000000000", want: notFinite},
		{name: "fixstr", body: "a3 e29883", want: "☃"},
		{name: "str8", body: "d9 01 61", want: "a"},
		{name: "str16", body: "da 0001 61", want: "a"},
		{name: "str32", body: "db 00000001 61", want: "a"},
		{name: "str of bytes", body: "a2 00ff", want: []byte{0, 0xff}},
		{name: "bin8", body: "c4 01 61", want: []byte("a")},
		{name: "bin16", body: "c5 0001 61", want: []byte("a")},
		{name: "bin32", body: "c6 00000001 61", want: []byte("a")},
		{name: "array16", body: "dc 0001 01", want: []any{int64(1)}},
		{name: "array32", body: "dd 00000001 01", want: []any{int64(1)}},
		{name: "empty array", body: "90", want: []any{}},
		{name: "fixmap", body: "82 a161 01 05 c0", want: replicator.ObjectOf(map[string]any{"a": int64(1), "5": nil})},
		{name: "map16", body: "de 0001 a161 01", want: replicator.ObjectOf(map[string]any{"a": int64(1)})},
		{name: "map32", body: "df 00000001 a161 01", want: replicator.ObjectOf(map[string]any{"a": int64(1)})},
		{name: "name twice", body: "82 a161 01 a161 02", want: replicator.ObjectOf(map[string]any{"a": int64(2)})},
		{name: "timestamp 32", body: "d6 ff 49a6b0d6", want: "2009-02-26T15:10:14"},
		{name: "timestamp 64", body: "d7 ff 77359400 49a6b0d6", want: "2009-02-26T15:10:14.5"},
		{name: "timestamp 96", body: "c7 0c ff 1dcd6500 ffffffffffffffff", want: "1969-12-31T23:59:59.5"},
		{name: "timestamp far off", body: "c7 0c ff 00000000 7fffffffffffffff",
			err: "a timestamp is out of range, at offset 15"},
		{name: "extension", body: "d4 05 00", err: "unknown extension type 5, at offset 3"},
		{name: "ext16", body: "c8 0001 05 00", err: "unknown extension type 5, at offset 5"},
		{name: "reserved", body: "c1", err: "0xc1 does not begin a value, at offset 1"},
		{name: "empty", body: "", err: "the body is cut short, at offset 0"},
		{name: "short", body: "da 0005 61", err: "the body is cut short, at offset 3"},
		{name: "length that lies", body: strings.Repeat("dd ffffffff ", 100), err: "the body is cut short, at offset 500"},
		{name: "trailing", body: "01 01", err: "something follows the end of the body, at offset 1"},
		{name: "key", body: "81 90 01", err: "a map has a key that is neither text nor an integer, at offset 2"},
		{name: "deep", body: strings.Repeat("91", 600), err: "the body nests deeper than 512 levels, at offset 512"},
	})
}

// The values come from RFC 8949, appendix A, where it lists them.
func TestCBOR(t *testing.T) {
	testBinary(t, decodeCBOR, []binaryTest{
		{name: "0", body: "00", want: int64(0)},
		{name: "23", body: "17", want: int64(23)},
		{name: "24", body: "1818", want: int64(24)},
		{name: "1000", body: "1903e8", want: int64(1000)},
		{name: "1000000", body: "1a000f4240", want: int64(1000000)},
		{name: "1000000000000", body: "1b000000e8d4a51000", want: int64(1000000000000)},
		{name: "2^64-1", body: "1bffffffffffffffff", want: uint64(1<<64 - 1)},
		{name: "2^64", body: "c249010000000000000000", want: replicator.Number("18446744073709551616")},
		{name: "-2^64", body: "3bffffffffffffffff", want: replicator.Number("-18446744073709551616")},
		{name: "-2^64-1", body: "c349010000000000000000", want: replicator.Number("-18446744073709551617")},
		{name: "-1", body: "20", want: int64(-1)},
		{name: "smallest int64", body: "3b7fffffffffffffff", want: int64(-1 << 63)},
		{name: "small big integer", body: "c24105", want: int64(5)},
		{name: "half", body: "f93e00", want: 1.5},
		{name: "smallest half", body: "f90001", want: 5.960464477539063e-8},
		{name: "negative half", body: "f9c400", want: -4.0},
		{name: "largest half", body: "f97bff", want: 65504.0},
		{name: "infinite half", body: "f97c00", want: notFinite},
		{name: "single", body: "fa47c35000", want: 100000.0},
		{name: "double", body: "fb3ff199999999999a", want: 1.1},
		{name: "booleans", body: "82f4f5", want: []any{false, true}},
		{name: "null and undefined", body: "82f6f7", want: []any{nil, nil}},
		{name: "simple value", body: "f0", err: "unknown simple value 16, at offset 1"},
		{name: "tagged text", body: "c074323031332d30332d32315432303a30343a30305a", want: "2013-03-21T20:04:00Z"},
		{name: "decimal fraction", body: "c48221196ab3", want: replicator.Number("273.15")},
		{name: "small decimal fraction", body: "c4822405", want: replicator.Number("0.00005")},
		{name: "negative decimal fraction", body: "c4822220", want: replicator.Number("-0.001")},
		{name: "long decimal fraction", body: "c48221c249010000000000000000",
			want: replicator.Number("184467440737095516.16")},
		{name: "decimal fraction of thousands", body: "c482030c", want: replicator.Number("12000")},
		{name: "decimal fraction of nothing", body: "c40c",
			err: "a decimal fraction is not a list of two numbers, at offset 2"},
		{name: "decimal fraction of text", body: "c482016161",
			err: "a decimal fraction's mantissa is not an integer, at offset 5"},
		{name: "decimal fraction of decimal fractions", body: "c48201c4822105",
			err: "a decimal fraction's mantissa is not an integer, at offset 7"},
		{name: "absurd decimal fraction", body: "c4821a7fffffff01",
			err: "a decimal fraction's exponent is not an integer within ±1000, at offset 8"},
		{name: "bytes", body: "4401020304", want: []byte{1, 2, 3, 4}},
		{name: "no bytes", body: "40", want: []byte{}},
		{name: "text", body: "62c3bc", want: "ü"},
		{name: "bad text", body: "61ff", err: "a string is not valid UTF-8, at offset 2"},
		{name: "list", body: "8301820203820405", want: []any{int64(1), []any{int64(2), int64(3)}, []any{int64(4), int64(5)}}},
		{name: "map", body: "a201020304", want: replicator.ObjectOf(map[string]any{"1": int64(2), "3": int64(4)})},
		{name: "open bytes", body: "5f42010243030405ff", want: []byte{1, 2, 3, 4, 5}},
		{name: "open text", body: "7f657374726561646d696e67ff", want: "streaming"},
		{name: "open text of halves", body: "7f61c361bcff", err: "a string is not valid UTF-8, at offset 3"},
		{name: "open text of bytes", body: "7f4161ff", err: "a string contains a chunk of another type, at offset 2"},
		{name: "open list", body: "9f01820203ff", want: []any{int64(1), []any{int64(2), int64(3)}}},
		{name: "open map", body: "bf61610161629f0203ffff", want: replicator.ObjectOf(map[string]any{"a": int64(1),
			"b": []any{int64(2), int64(3)}})},
		{name: "odd open map", body: "bf6161ff", err: "unknown simple value 31, at offset 4"},
		{name: "open and cut", body: "9f01", err: "the body is cut short, at offset 2"},
		{name: "reserved head", body: "1c", err: "a value has an invalid head, at offset 1"},
		{name: "open integer", body: "1f", err: "a value has an invalid head, at offset 1"},
		{name: "break alone", body: "ff", err: "unknown simple value 31, at offset 1"},
		{name: "length that lies", body: strings.Repeat("9affffffff", 100), err: "the body is cut short, at offset 500"},
		{name: "greatest length", body: "5bffffffffffffffff", err: "the body is cut short, at offset 9"},
		{name: "trailing", body: "0000", err: "something follows the end of the body, at offset 1"},
		{name: "text references", body: "d90100 82 63616161 d81900", err: "reference tag 25 is not supported " +
			"(write bodies without references to strings and shared values), at offset 10"},
		{name: "no text is referred to", body: "d90100 81 6161", want: []any{"a"}},
		{name: "text reference", body: "82 63616161 d81900", err: "reference tag 25 is not supported " +
			"(write bodies without references to strings and shared values), at offset 7"},
		{name: "shared value", body: "82 d81c 8101 d81d00", err: "reference tag 29 is not supported " +
			"(write bodies without references to strings and shared values), at offset 7"},
		{name: "no value is shared", body: "d81c 81 d81c 8101", want: []any{[]any{int64(1)}}},
		{name: "shared value's reference", body: "82 8101 d81d00", err: "reference tag 29 is not supported " +
			"(write bodies without references to strings and shared values), at offset 5"},
		{name: "reference as a name", body: "a1 d81900 01", err: "reference tag 25 is not supported " +
			"(write bodies without references to strings and shared values), at offset 3"},
		{name: "a UUID's tag", body: "d825 42 0102", want: []byte{1, 2}},
		{name: "a body that says it is CBOR", body: "d9d9f7 01", want: int64(1)},
		{name: "tags in tags", body: strings.Repeat("c1", 600), err: "the body nests deeper than 512 levels, at offset 512"},
	})
}

func TestABodyMustBeAMapInEveryFormat(t *testing.T) {
	tests := []struct{ codec, body, want string }{
		{"msgpack", "93010203", "msgpack: the body is a list, want a map"},
		{"cbor", "6161", "cbor: the body is a string, want a map"},
		{"cbor", "01", "cbor: the body is a number, want a map"},
		{"pickle", "4e2e", "pickle: the body is null, want a map"},
	}
	for _, tt := range tests {
		values := make([]any, 1)
		err := mustNew(t, tt.codec).Decoder([]string{"a"}).Decode(unhex(t, tt.body), values)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.codec, err, tt.want)
		}
	}
}

func FuzzMsgpack(f *testing.F) {
	fuzzBinary(f, decodeMsgpack, "82a16101a3626172c0", "c70cff1dcd6500ffffffffffffffff",
		"de0001d9016191cb3fb999999999999a")
}

func FuzzCBOR(f *testing.F) {
	fuzzBinary(f, decodeCBOR, "bf61610161629f0203ffff", "c249010000000000000000", "7f657374726561646d696e67ff")
}

func fuzzBinary(f *testing.F, decode func([]byte, *wanted) (any, error), seeds ...string) {
	for _, s := range seeds {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if v, err := decode(body, nil); err == nil {
			checkModel(t, v)
		}
	})
}
