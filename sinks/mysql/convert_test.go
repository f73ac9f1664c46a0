package mysql_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

const uuidText = "71f0c4d2-2918-44cc-a2df-6f486e96e37c"

var uuidBytes = []byte("\x71\xf0\xc4\xd2\x29\x18\x44\xcc\xa2\xdf\x6f\x48\x6e\x96\xe3\x7c")

// onMariaDB is the suffix of a text that only MariaDB stores. MySQL rounds such a number in JSON, its TIMESTAMP begins
// a second later, and its TIME ends a second earlier.
const onMariaDB = " on MariaDB"

// bad is the text for a value that must be rejected.
const bad = "\x00rejected"

// conversions are values, and the texts that a column of a type returns for them. The column stores the value itself or
// nothing.
var conversions = []struct {
	column string
	value  any
	want   string
}{
	{"BINARY(16)", uuidBytes, string(uuidBytes)},
	{"BINARY(16)", uuidText, string(uuidBytes)},
	{"BINARY(16)", strings.ReplaceAll(strings.ToUpper(uuidText), "-", ""), string(uuidBytes)},
	{"BINARY(16)", []byte("short"), bad},
	{"BINARY(16)", []byte("seventeen bytes!!"), bad},
	{"BINARY(16)", int64(1), bad},
	{"BINARY(2)", []byte{0, 0}, "\x00\x00"},
	{"VARBINARY(4)", []byte{0xff, 0, 0x5c, 0x27}, "\xff\x00\\'"},
	{"VARBINARY(4)", []byte{}, ""},
	{"VARBINARY(4)", "12345", bad},
	{"VARBINARY(255)", int64(-12), "-12"},
	{"BLOB", bytes.Repeat([]byte{0x80}, 65535), strings.Repeat("\x80", 65535)},
	{"BLOB", bytes.Repeat([]byte{0x80}, 65536), bad},
	{"CHAR(36)", uuidBytes, uuidText},
	{"CHAR(32)", uuidBytes, strings.ReplaceAll(uuidText, "-", "")},
	{"CHAR(5)", "xyz ", bad},

	{"TINYINT", int64(127), "127"}, {"TINYINT", int64(128), bad}, {"TINYINT", int64(-128),
		"-128"}, {"TINYINT", int64(-129), bad},
	{"TINYINT UNSIGNED", int64(255), "255"}, {"TINYINT UNSIGNED", int64(256), bad}, {"TINYINT UNSIGNED", int64(-1), bad},
	{"BOOLEAN", true, "1"}, {"BOOLEAN", false, "0"}, {"BOOLEAN", "yes", bad},
	{"SMALLINT", int64(32767), "32767"}, {"SMALLINT", int64(32768), bad},
	{"MEDIUMINT", int64(-8388608), "-8388608"}, {"MEDIUMINT", int64(8388608), bad},
	{"MEDIUMINT UNSIGNED", int64(16777215), "16777215"},
	{"INT(10)", int64(2147483647), "2147483647"}, {"INT(10)", int64(2147483648), bad},
	{"INT UNSIGNED", int64(4294967295), "4294967295"},
	{"BIGINT", int64(-9223372036854775808), "-9223372036854775808"}, {"BIGINT", uint64(9223372036854775808), bad},
	{"BIGINT UNSIGNED", uint64(18446744073709551615), "18446744073709551615"},
	{"BIGINT", int64(9007199254740993), "9007199254740993"},
	{"BIGINT", replicator.Number("1e3"), "1000"}, {"BIGINT", 1000.0, "1000"}, {"BIGINT", 1.5, bad},
	{"BIGINT", replicator.Number("1.5"), bad},
	{"BIGINT", replicator.Number("1e400"), bad}, {"BIGINT", replicator.Number("1e99999999999"), bad},
	{"BIGINT", "42", "42"}, {"BIGINT", "042", bad}, {"BIGINT", " 42", bad}, {"BIGINT", "", bad},
	{"BIGINT", []any{int64(1)}, bad},
	{"DECIMAL(10,2)", replicator.Number("12345678.90"), "12345678.90"}, {"DECIMAL(10,2)", replicator.Number("0.005"), bad},
	{"DECIMAL(10,2)", replicator.Number("1.230000"), "1.23"}, {"DECIMAL(10,2)", int64(123456789), bad},
	{"DECIMAL(10,2)", 0.1, "0.10"},
	{"DECIMAL(65,30)", replicator.Number("-12345678901234567890123456789012345.123456789012345678901234567891"),
		"-12345678901234567890123456789012345.123456789012345678901234567891"},
	{"DECIMAL(10,2) UNSIGNED", int64(-1), bad}, {"DECIMAL(10,2)", "x", bad},
	{"DECIMAL(5,0)", replicator.Number("-0.0"), "0"},
	{"DOUBLE", 0.1, "0.1"}, {"DOUBLE", int64(9007199254740992), "9.007199254740992e15"},
	{"DOUBLE", int64(9007199254740993), bad},
	{"DOUBLE", replicator.Number("0.12345678901234567890123"), bad},
	{"FLOAT", 0.5, "0.5"}, {"FLOAT", 0.1, "0.1"}, {"FLOAT", int64(16777217), bad}, {"FLOAT", 1e300, bad},
	{"FLOAT", 3.4028235e38, "3.40282e+38"}, {"FLOAT", -3.4028235e38, "-3.40282e+38"}, {"FLOAT", 1e-45, "1e-45"},
	{"FLOAT(7,2)", 99999.99, "99999.99"},
	{"BIT(1)", true, "\x01"}, {"BIT(10)", int64(1023), "\x03\xff"}, {"BIT(10)", int64(1024), bad},
	{"BIT(64)", uint64(18446744073709551615), strings.Repeat("\xff", 8)},
	{"YEAR", int64(2009), "2009"}, {"YEAR", int64(1900), bad}, {"YEAR", "2155", "2155"},

	{"VARCHAR(3)", "äöü", "äöü"}, {"VARCHAR(3)", "abcd", bad}, {"VARCHAR(3)", "ab  ", bad}, {"VARCHAR(3)", "a\\'",
		"a\\'"}, {"VARCHAR(3)", "\x00", "\x00"},
	{"VARCHAR(30)", int64(9007199254740993), "9007199254740993"}, {"VARCHAR(30)", replicator.Number("1.10"), "1.10"},
	{"VARCHAR(5)", true, "true"},
	{"VARCHAR(30)", "\xff", bad}, {"VARCHAR(30)", []byte("bytes"), "bytes"}, {"VARCHAR(30)", []byte{0xff}, bad},
	{"VARCHAR(30)", replicator.ObjectOf(map[string]any{"b": replicator.Number("1.50"), "a": []any{nil, "é"}}),
		`{"a":[null,"é"],"b":1.50}`}, {"TEXT", []any{}, "[]"}, {"VARCHAR(5)", []any{int64(1), int64(20)}, bad},
	{"TEXT", []any{math.NaN()}, bad}, {"VARBINARY(30)", []any{int64(1)}, bad},
	{"VARCHAR(10) CHARACTER SET latin1", "é€", "é€"}, {"VARCHAR(10) CHARACTER SET latin1", "日", bad},
	{"VARCHAR(10) CHARACTER SET ascii", "é", bad}, {"VARCHAR(10) CHARACTER SET utf8mb3", "😀", bad},
	{"VARCHAR(10)", "😀", "😀"},
	{"TINYTEXT", strings.Repeat("é", 127), strings.Repeat("é", 127)}, {"TINYTEXT", strings.Repeat("é", 128), bad},

	{"DATETIME", "2009-02-27 18:30:05", "2009-02-27 18:30:05"}, {"DATETIME",
		"2009-02-27T18:30:05Z", "2009-02-27 18:30:05"},
	{"DATETIME", "2009-02-27T18:30:05+09:00", "2009-02-27 09:30:05"}, {"DATETIME", "2009-02-27 18:30:05.5", bad},
	{"DATETIME", "2009-02-27 18:30:05.000", "2009-02-27 18:30:05"},
	{"DATETIME(3)", "2009-02-27 18:30:05.125", "2009-02-27 18:30:05.125"},
	{"DATETIME(3)", "2009-02-27 18:30:05.1255", bad},
	{"DATETIME", "2009-02-30 00:00:00", bad}, {"DATETIME", "2009-02-27", "2009-02-27 00:00:00"},
	{"DATETIME", "0000-00-00 00:00:00", "0000-00-00 00:00:00"},
	{"DATETIME", "2009-05-00 18:30:05", "2009-05-00 18:30:05"},
	{"DATETIME(3)", "2009-00-00 18:30:05.125", "2009-00-00 18:30:05.125"},
	{"DATETIME", "2009-05-00T18:30:05Z", bad}, {"DATETIME", "0000-00-00 18:30:05", "0000-00-00 18:30:05"},
	{"TIMESTAMP NULL", "2009-05-00 00:00:00", bad},
	{"TIMESTAMP NULL", "0000-00-00 00:00:00", "0000-00-00 00:00:00"},
	{"DATE", "2009-05-00", "2009-05-00"}, {"DATE", "2009-00-31", "2009-00-31"}, {"DATE", "2009-13-00", bad},
	{"DATE", "0000-00-00", "0000-00-00"},
	{"DATETIME", int64(1235759405), bad}, {"DATETIME", "yesterday", bad},
	{"TIMESTAMP NULL", "2009-02-27T18:30:05Z", "2009-02-27 18:30:05"}, {"TIMESTAMP NULL", "1969-12-31 00:00:00", bad},
	{"TIMESTAMP NULL", "1970-01-01 00:00:00", bad}, {"TIMESTAMP(3) NULL", "1970-01-01 00:00:00.000", bad},
	{"TIMESTAMP(1) NULL", "1970-01-01 00:00:00.5", "1970-01-01 00:00:00.5" + onMariaDB},
	{"TIMESTAMP(1) NULL", "1969-12-31 23:59:59.5", bad},
	{"TIMESTAMP NULL", "9999-01-01 00:00:00", bad},
	{"DATE", "2009-02-27", "2009-02-27"}, {"DATE", "2009-02-27T00:00:00Z", "2009-02-27"},
	{"DATE", "2009-02-27 01:00:00", bad}, {"DATE", "2009-2-27", bad},
	{"TIME", "18:30:05", "18:30:05"}, {"TIME", "-838:59:59", "-838:59:59"}, {"TIME", "839:00:00", bad},
	{"TIME(3)", "838:59:59.999", "838:59:59.999" + onMariaDB}, {"TIME(6)", "-838:59:59.999999", "-838:59:59.999999" + onMariaDB},
	{"TIME(1)", "00:00:00.5", "00:00:00.5"},
	{"ENUM('a','it''s')", "it's", "it's"}, {"ENUM('a','b')", "A", bad}, {"SET('a','b')", "A", bad}, {"ENUM('a','b')", "c", bad},
	{"ENUM('a','b')", int64(1), bad},
	{"SET('x','y','z')", []any{"z", "x"}, "x,z"}, {"SET('x','y')", "x,y", "x,y"}, {"SET('x','y')", "q", bad},
	{"SET('x','y')", "", ""},
	{"JSON", replicator.ObjectOf(map[string]any{"n": int64(9007199254740993), "a": []any{nil, true, "é\"<"}}),
		`{"a": [null, true, "é\"<"], "n": 9007199254740993}`},
	{"JSON", "text", `"text"`}, {"JSON", []any{}, "[]"}, {"JSON", replicator.RawJSON(`{"k": 1}`),
		`{"k": 1}`}, {"JSON", "\xff", bad},
	{"JSON", replicator.Number("0.1"), "0.1"},
	{"JSON", []any{replicator.Number("12345678901234567890123")}, "[12345678901234567890123]" + onMariaDB},
	{"JSON", []any{3.0, 1234567.0, 1.5}, "[3, 1234567, 1.5]"}, {"JSON", math.Inf(1), bad},
	{"JSON", []any{replicator.RawJSON("{")}, bad}, {"JSON", replicator.RawJSON("{"), bad},
}

// A value that fits is stored unchanged, and any other value is rejected. The server never gets a value that it would
// change.
func TestConversion(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		var views []*replicator.View
		var ddl []string
		var op replicator.Op
		key, _ := replicator.MakeKey(uuidBytes)
		for i, c := range conversions {
			name := fmt.Sprintf("c%d", i)
			ddl = append(ddl, fmt.Sprintf("CREATE TABLE %s (id BINARY(16) PRIMARY KEY, v %s) COLLATE utf8mb4_general_ci", name,
				c.column))
			views = append(views, &replicator.View{Name: name, Kind: "row", From: from("cell.users"), Fields: fields("v"),
				Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: name}, Fingerprint: "1"})
			op.Values = append(op.Values, replicator.Value{View: i, Entries: []replicator.Entry{{Fields: []any{c.value}}}})
		}
		op.Cell, op.Version, op.Order = replicator.Cell{Table: "cell", Column: "users", Key: key}, 1, 1
		db, dsn := database(t, s, ddl...)
		sink := newSink(t, dsn)
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := target.Apply(t.Context(), []replicator.Op{op})
		if err != nil {
			t.Fatal(err)
		}
		rejected := map[int]error{}
		for _, r := range applied.Rejected {
			rejected[r.View] = r.Err
		}
		// A stored value compares as equal, and a rejected one as dead.
		differences, err := target.Compare(t.Context(), []replicator.Op{op})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differences {
			if d.Kind == replicator.Dead && rejected[d.View] != nil {
				continue
			}
			t.Errorf("%T %.50v in %s: %s", conversions[d.View].value, conversions[d.View].value,
				conversions[d.View].column, d.Kind)
		}
		for i, c := range conversions {
			var theirs bool
			if c.want, theirs = strings.CutSuffix(c.want, onMariaDB); !s.Kind.IsMariaDB() &&
				(theirs) {
				c.want = bad
			}
			var got sql.NullString
			err := db.QueryRow(fmt.Sprintf("SELECT v FROM c%d", i)).Scan(&got)
			switch {
			case c.want == bad && rejected[i] == nil:
				t.Errorf("%T %.50v in %s: stored as %q", c.value, c.value, c.column, got.String)
			case c.want == bad:
				if text, ok := c.value.(string); ok && len(text) > 3 && strings.Contains(rejected[i].Error(), text) {
					t.Errorf("%s: the reason shows the value: %v", c.column, rejected[i])
				}
			case rejected[i] != nil:
				t.Errorf("%T %.50v in %s: rejected: %v", c.value, c.value, c.column, rejected[i])
			case err != nil:
				t.Errorf("%s: %v", c.column, err)
			case strings.ReplaceAll(got.String, " ", "") != strings.ReplaceAll(c.want, " ", "") &&
				!sameNumber(c.column, got.String, c.want):
				t.Errorf("%T %.50v in %s: stored as %q", c.value, c.value, c.column, got.String)
			}
		}
	})
}

// sameNumber compares numbers that servers write in different forms: 9.007e15 and 9007…
func sameNumber(column, a, b string) bool {
	var x, y float64
	_, err1 := fmt.Sscan(a, &x)
	_, err2 := fmt.Sscan(b, &y)
	return column == "DOUBLE" && err1 == nil && err2 == nil && x == y
}
