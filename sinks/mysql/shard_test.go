package mysql

import (
	"strings"
	"testing"
)

// The shards were computed by Python: n % 3, int.from_bytes(b, "big") % 3, zlib.crc32(b) % 3, and the same modulo 7.
func TestShardRule(t *testing.T) {
	bigint, unsigned := column{typ: "bigint"}, column{typ: "bigint", unsigned: true}
	binary16 := column{typ: "binary", chars: 16, bytes: 16}
	varbinary := column{typ: "varbinary", bytes: 255}
	varchar := column{typ: "varchar", chars: 100, charset: "utf8mb4"}
	const id = "f48b0440ca0c4f66991c4d5f6a078eaf"
	for _, c := range []struct {
		name   string
		column column
		value  any
		of3    int
		of7    int
	}{
		{"zero", bigint, int64(0), 0, 0},
		{"an integer", bigint, int64(1 << 31), 2, 2},
		{"an integer in text", bigint, "2147483648", 2, 2},
		{"-1", bigint, int64(-1), 2, 6},
		{"-7", bigint, int64(-7), 2, 0},
		{"-9", bigint, int64(-9), 0, 5},
		{"the lowest integer", bigint, int64(-1 << 63), 1, 6},
		{"2^63+5", unsigned, uint64(1<<63 + 5), 1, 6},
		{"2^64-1", unsigned, uint64(1<<64 - 1), 0, 1},
		{"16 bytes", binary16, []byte("\xf4\x8b\x04\x40\xca\x0c\x4f\x66\x99\x1c\x4d\x5f\x6a\x07\x8e\xaf"), 0, 0},
		{"a UUID's digits in BINARY(16)", binary16, id, 0, 0},
		{"a UUID in the type UUID", column{typ: "uuid"}, "f48b0440-ca0c-4f66-991c-4d5f6a078eaf", 0, 0},
		{"16 bytes that look like text", binary16, "0123456789abcdef", 0, 1},
		{"16 bytes in VARBINARY", varbinary, []byte("0123456789abcdef"), 0, 1},
		{"the highest 16 bytes", binary16, []byte(strings.Repeat("\xff", 16)), 0, 3},
		{"15 bytes", varbinary, []byte("0123456789abcde"), 0, 4},
		{"16 characters of text", varchar, "0123456789abcdef", 0, 2},
		{"no text", varchar, "", 0, 0},
		{"a letter", varchar, "a", 0, 4},
		{"beyond ASCII", varchar, "http://例え.jp/1", 2, 6},
		{"upper case", varchar, "Foo", 2, 0},
		{"lower case", varchar, "foo", 2, 2},
		{"a UUID's digits in text", varchar, id, 2, 3},
	} {
		bound, err := c.column.convert(c.value)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if of3, of7 := c.column.shardOf(bound, 3), c.column.shardOf(bound, 7); of3 != c.of3 || of7 != c.of7 {
			t.Errorf("%s leads to shards %d of 3 and %d of 7, and not to %d and %d", c.name, of3, of7, c.of3, c.of7)
		}
	}
}
