package canal

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// typeCase is a column type with literals to store in such a column.
type typeCase struct {
	ddl    string
	values []string
}

func commonTypes() []typeCase {
	cases := []typeCase{
		{"YEAR", []string{"2024", "0", "1901", "2155"}},
		{"TINYINT", []string{"-128", "127", "0"}},
		{"TINYINT UNSIGNED", []string{"255", "128"}},
		{"SMALLINT", []string{"-32768", "32767"}},
		{"SMALLINT UNSIGNED", []string{"65535"}},
		{"MEDIUMINT", []string{"-8388608", "8388607", "-1"}},
		{"MEDIUMINT UNSIGNED", []string{"16777215"}},
		{"INT", []string{"-2147483648", "2147483647"}},
		{"INT UNSIGNED ZEROFILL", []string{"42", "4294967295"}},
		{"BIGINT", []string{"-9223372036854775808", "9007199254740993"}},
		{"BIGINT UNSIGNED", []string{"18446744073709551615", "9223372036854775807"}},
		{"BOOLEAN", []string{"true", "false"}},
		{"FLOAT", []string{"1.1", "16777217", "-3.4e38", "0.333333333", "1e-40"}},
		{"FLOAT(7,2)", []string{"1.10", "99999.99", "-0.10", "-7.35"}},
		{"FLOAT(20,3)", []string{"-1234567890123.125", "0.0005"}},
		{"DOUBLE", []string{"1.1", "-1.7976931348623157e308", "123456789012345678", "0.1e0+0.2e0", "5e-324"}},
		{"DOUBLE(10,2)", []string{"-0.10", "0.10", "-0.001", "-99999999.99", "1.005", "-7.35", "-0.07"}},
		{"DOUBLE(30,4) UNSIGNED ZEROFILL", []string{"1004999999999.9999", "0.1", "12345678901234567890.12345"}},
		{"DOUBLE(20,0)", []string{"-0.5", "99999999999999999999", "-1.5"}},
		{"DECIMAL(20,5)", []string{"-123456789012345.67891", "0", "-0.00001", "1.5"}},
		{"DECIMAL(65,30)", []string{"12345678901234567890123456789012345.123456789012345678901234567890",
			"-0.000000000000000000000000000001"}},
		{"DECIMAL(9,0)", []string{"999999999", "-1"}},
		{"DECIMAL(18,9) UNSIGNED ZEROFILL", []string{"1.000000001", "0.5"}},
		{"BIT(1)", []string{"b'1'", "b'0'"}},
		{"BIT(12)", []string{"b'101010101010'"}},
		{"BIT(64)", []string{"0xFFFFFFFFFFFFFFFF", "1"}},
		{"DATE", []string{"'2024-02-29'", "'0000-00-00'", "'2024-00-00'", "'9999-12-31'"}},
		{"CHAR(10)", []string{"'abc  '", "''", "'ünïcödé'"}},
		{"CHAR(255) CHARACTER SET utf8mb4", []string{"'日本語'"}},
		{"VARCHAR(10)", []string{"'abc  '", "'😀'"}},
		{"VARCHAR(3000) CHARACTER SET latin1", []string{"'café €'", "0x81"}},
		{"VARCHAR(100) CHARACTER SET latin2", []string{"'Łódź'"}},
		{"VARCHAR(100) CHARACTER SET cp1251", []string{"'Привет'"}},
		{"VARCHAR(100) CHARACTER SET koi8r", []string{"'Привет'"}},
		{"VARCHAR(100) CHARACTER SET greek", []string{"'Ελλάδα'"}},
		{"VARCHAR(100) CHARACTER SET sjis", []string{"'日本語ｱ'"}},
		{"VARCHAR(100) CHARACTER SET ujis", []string{"'日本語'"}},
		{"VARCHAR(100) CHARACTER SET gbk", []string{"'中文'"}},
		{"VARCHAR(100) CHARACTER SET big5", []string{"'中文'"}},
		{"VARCHAR(100) CHARACTER SET euckr", []string{"'한국어'"}},
		{"VARCHAR(100) CHARACTER SET utf16", []string{"'a😀b'"}},
		{"VARCHAR(100) CHARACTER SET utf32", []string{"'a😀b'"}},
		{"VARCHAR(100) CHARACTER SET utf16le", []string{"'a😀b'"}},
		{"VARCHAR(100) CHARACTER SET ucs2", []string{"'añb'", "CAST(0x0061D83DDE000062 AS CHAR CHARACTER SET ucs2)"}},
		{"VARCHAR(100) CHARACTER SET utf32", []string{"CAST(0x000000610000D83D00000062 AS CHAR CHARACTER SET utf32)"}},
		{"CHAR(4) CHARACTER SET swe7", []string{"'É'"}},
		{"CHAR(20) CHARACTER SET utf8mb3", []string{"'žluťoučký'"}},
		{"TINYTEXT", []string{"'t'"}},
		{"TEXT CHARACTER SET latin1", []string{"'é'"}},
		{"MEDIUMTEXT", []string{"REPEAT('x', 70000)"}},
		{"LONGTEXT", []string{"'l'"}},
		{"BINARY(16)", []string{"0x00112233445566778899AABBCCDD0000", "0x00000000000000000000000000000000", "'a'"}},
		{"BINARY(255)", []string{"0x01"}},
		{"VARBINARY(16)", []string{"0x0100", "''"}},
		{"VARBINARY(400)", []string{"0x0100"}},
		{"TINYBLOB", []string{"0xFF00"}},
		{"BLOB", []string{"0xFF00", "''"}},
		{"MEDIUMBLOB", []string{"REPEAT(0xFF, 70000)"}},
		{"LONGBLOB", []string{"0x00"}},
		{"ENUM('a','b,c','it''s','ü')", []string{"'a'", "'b,c'", "'it''s'", "'ü'"}},
		{"ENUM('x','é') CHARACTER SET latin1", []string{"'é'"}},
		{"ENUM('−','〜') CHARACTER SET sjis", []string{"'〜'"}},
		{"SET('−','‖','¢') CHARACTER SET ujis", []string{"'−,¢'"}},
		{"SET('a','b','c','d','e','f','g','h','i')", []string{"'a,c,i'", "''"}},
		{"GEOMETRY", []string{"ST_GeomFromText('POINT(1 2)')"}},
		{"POINT", []string{"ST_GeomFromText('POINT(1 2)')"}},
		// After GEOMETRY, the signs and character sets must still belong to the right columns.
		{"INT", []string{"7"}},
		{"VARCHAR(5) CHARACTER SET latin1", []string{"'é'"}},
		{"INT UNSIGNED", []string{"4294967295"}},
	}
	for n := range 7 {
		frac := fmt.Sprintf("(%d)", n)
		cases = append(cases,
			typeCase{"DATETIME" + frac, []string{"'2024-05-06 07:08:09.123456'", "'0000-00-00 00:00:00'",
				"'1969-12-31 23:59:59'", "'9999-12-31 23:59:59'"}},
			typeCase{"TIMESTAMP" + frac + " NULL", []string{"'2024-05-06 07:08:09.123456'", "'0000-00-00 00:00:00'",
				"'2038-01-19 03:14:07'", "'1970-01-01 05:30:00.5'", "'1970-01-01 05:30:00.000001'"}},
			typeCase{"TIME" + frac, []string{"'12:34:56.654321'", "'-838:59:58'", "'-00:00:00.5'", "'-00:00:00.01'",
				"'00:00:00'", "'-01:02:03.000001'"}})
	}
	return cases
}

func mysqlTypes() []typeCase {
	return []typeCase{
		{"JSON", []string{`'{"b": 1, "a": [1.0, 1e21, -0.0, 18446744073709551615, "x\\ny\\"\\u0001", null, true, {}], "long": 9223372036854775807}'`,
			"'1.5'", "'[]'", "'\"ü\"'", "CAST(CAST(1.50 AS DECIMAL(10,2)) AS JSON)",
			"CAST(CAST('2024-05-06 07:08:09.5' AS DATETIME(1)) AS JSON)",
			"JSON_OBJECT('d', CAST('2024-05-06' AS DATE), 't', CAST('-12:34:56.5' AS TIME(1)), 'dt', CAST('2024-05-06 07:08:09' AS DATETIME), 'n', -12345.678)",
			"JSON_ARRAY(1e0, 1e15, 1e14, 123456789012345678e0, 1e-5, 1e-14, 1e-15, 1e-16, 1e300, 0.1e0, 100e0, 1.7976931348623157e308, 5e-324)",
			"JSON_OBJECT('bin', CAST(REPEAT('x', 200) AS BINARY), 'bits', b'1010')",
			"JSON_ARRAY(65535, 65536, -32769, 2147483648, -1)",
			"CONCAT('[', REPEAT('\"0123456789\",', 9000), '1]')",
			"CONCAT('{\"k\": \"', REPEAT('y', 70000), '\", \"z\": {\"k\": 1}}')"}},
		{"VECTOR(3)", []string{"STRING_TO_VECTOR('[1,2,3]')"}},
		{"VARCHAR(20) CHARACTER SET gb18030", []string{"'中文😀'"}},
		{"VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin", []string{"'é'"}},
	}
}

func mariaTypes(version string) []typeCase {
	cases := []typeCase{
		{"JSON", []string{`'{"b": 1, "a":[1.0]}'`}},
		{"INET6", []string{"'2001:db8::ff00:42:8329'", "'::'", "'::ffff:192.0.2.1'", "'::192.0.2.1'", "'1::'", "'::1:2'",
			"'::1'", "'2001:db8:0:1:1:1:1:1'", "'1:0:0:2:0:0:3:4'"}},
		{"INET4", []string{"'192.0.2.1'", "'0.0.0.0'", "'10.0.0.0'"}},
		{"UUID", []string{"'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'",
			"'6ccd780c-baba-1026-9564-5b8c656024db'",
			"'f47ac10b-58cc-4372-a567-0e02b2c3d400'", "'01890dd5-ea3f-7764-9f4c-5c2d5cf54a62'",
			"'ffffffff-ffff-ffff-ffff-ffffffffffff'"}},
		{"VARCHAR(500) COMPRESSED", []string{"REPEAT('abc', 100)", "'short'", "''"}},
		{"TEXT COMPRESSED", []string{"REPEAT('é', 1000)", "'short'", "''"}},
		{"BLOB COMPRESSED", []string{"REPEAT(0xFF, 1000)"}},
		{"VARBINARY(900) COMPRESSED", []string{"REPEAT(0xFE, 800)"}},
	}
	if strings.HasPrefix(version, "11.") {
		cases = append(cases, typeCase{"VECTOR(3)", []string{"VEC_FromText('[1,2,3]')"}},
			typeCase{"VARCHAR(9) COLLATE uca1400_ai_ci", []string{"'é'"}})
	}
	return cases
}

// typeTables makes one table for each batch of types, because a row may not exceed 64 KiB. A column's name has the
// number of its type in the batch.
func typeTables(b *bench, keep func(value string) bool) []replicator.Table {
	cases := commonTypes()
	if b.isMaria() {
		cases = append(cases, mariaTypes(b.server.Version)...)
	} else {
		cases = append(cases, mysqlTypes()...)
	}
	if b.server.Kind.IsOldMySQL() {
		cases = slices.DeleteFunc(cases, func(c typeCase) bool { return strings.HasPrefix(c.ddl, "VECTOR") })
	}
	var tables []replicator.Table
	const batch = 24
	for at := 0; at < len(cases); at += batch {
		part := cases[at:min(at+batch, len(cases))]
		name := fmt.Sprintf("t%d", at)
		ddl := "CREATE TABLE " + name + " (id INT PRIMARY KEY"
		rows := 0
		for i, c := range part {
			ddl += fmt.Sprintf(", c%d %s", i, c.ddl)
			rows = max(rows, len(c.values))
		}
		b.exec(ddl + ")")
		tables = append(tables, replicator.Table{Name: name, Key: []string{"id"}, Columns: []string{"*"}})
		for r := range rows + 1 { // in the last row everything is NULL
			values := []string{fmt.Sprint(r)}
			for _, c := range part {
				v := "NULL"
				if r < len(c.values) && keep(c.values[r]) {
					v = c.values[r]
				}
				values = append(values, v)
			}
			b.session("SET sql_mode = ''", "SET time_zone = '+05:30'", "SET NAMES utf8mb4",
				"INSERT INTO "+name+" VALUES ("+strings.Join(values, ", ")+")")
		}
	}
	return tables
}

func TestTailAndScanGiveTheSameValues(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		from := b.latest(b.source())
		tables := typeTables(b, func(string) bool { return true })
		src := b.source(tables...)
		changes := b.changes(src, from)
		reader := b.open(src, b.latest(src))
		scanned := map[replicator.Cell]*replicator.Row{}
		for _, table := range tables {
			chunk, err := reader.Scan(testContext(t), table.Name, nil, "", replicator.ScanLimit{Rows: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range chunk.Rows {
				scanned[r.Cell] = r
			}
		}
		if len(changes) != len(scanned) {
			t.Errorf("%d rows in the tail, %d in the scan", len(changes), len(scanned))
		}
		for _, c := range changes {
			row := scanned[c.Cell]
			if row == nil {
				t.Errorf("%s is not in the scan", c.Cell)
				continue
			}
			if c.Row.Err != nil || row.Err != nil {
				t.Errorf("%s: tail %v, scan %v", c.Cell, c.Row.Err, row.Err)
			}
			for i, v := range c.Row.Columns {
				if !reflect.DeepEqual(v, row.Columns[i]) {
					t.Errorf("%s column %s:\ntail %T %s\nscan %T %s", c.Cell, c.Row.Names[i], v, short(v),
						row.Columns[i], short(row.Columns[i]))
				}
			}
		}
	})
}

func short(v any) string {
	s := fmt.Sprintf("%q", v)
	if b, ok := v.([]byte); ok {
		s = fmt.Sprintf("%x", b)
	}
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// If the tail and a scan gave a row different versions, a view filled by a scan would take newer rows for stale.
func TestTailAndScanGiveTheSameVersions(t *testing.T) {
	cases := []typeCase{
		{"TINYINT", []string{"0", "127"}}, {"TINYINT UNSIGNED", []string{"255"}}, {"SMALLINT", []string{"32767"}},
		{"SMALLINT UNSIGNED", []string{"65535"}}, {"MEDIUMINT", []string{"8388607"}},
		{"MEDIUMINT UNSIGNED", []string{"16777215"}}, {"INT(9) ZEROFILL", []string{"7"}},
		{"INT", []string{"2147483647"}}, {"INT UNSIGNED", []string{"4294967295"}},
		{"BIGINT", []string{"9223372036854775807"}},
		{"BIGINT UNSIGNED", []string{"9223372036854775807"}}, {"BIT(1)", []string{"b'1'"}},
		{"BIT(63)", []string{"9223372036854775807"}}, {"YEAR", []string{"0", "1901", "1999", "2027", "2028", "2155"}},
		{"DATETIME", []string{"'2026-11-26 01:02:03'"}}, {"DATETIME(4)", []string{"'2026-11-26 01:02:03.4567'"}},
		{"TIMESTAMP", []string{"'2026-11-26 01:02:03'"}}, {"TIMESTAMP(6)", []string{"'2026-11-26 01:02:03.456789'"}},
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		from := b.latest(b.source())
		var tables []replicator.Table
		for i, c := range cases {
			name := fmt.Sprintf("t%d", i)
			b.exec("CREATE TABLE " + name + " (id INT, n INT, v " + c.ddl + " NULL, PRIMARY KEY (id, n))")
			for id, value := range c.values {
				b.exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, 1, %s)", name, id, value))
			}
			tables = append(tables, replicator.Table{Name: name, Key: []string{"id"}, Version: "v"})
		}
		src := b.source(tables...)
		changes := b.changes(src, from)
		reader := b.open(src, b.latest(src))
		scanned := map[replicator.Cell]int64{}
		for _, table := range tables {
			chunk, err := reader.Scan(testContext(t), table.Name, nil, "", replicator.ScanLimit{Rows: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range chunk.Rows {
				scanned[r.Cell] = r.Version
			}
		}
		if len(changes) != len(scanned) {
			t.Errorf("%d rows in the tail, %d in the scan", len(changes), len(scanned))
		}
		for i, table := range tables {
			for _, c := range changes {
				at, ok := scanned[c.Cell]
				if c.Cell.Table == table.Name && (!ok || at != c.Version || c.Row.Err != nil) {
					t.Errorf("%s: version %d in the tail (%v), %d in the scan", cases[i].ddl, c.Version, c.Row.Err, at)
				}
			}
		}
	})
}
