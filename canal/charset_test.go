package canal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const (
	codesInRow = 1000

	// computed is the distance between the codes that are tested beyond Unicode's first 65,536 characters. Conversions
	// there are computed without tables, so samples are enough.
	computed = 17
)

// charsetCodes returns all codes that columns of a character set accept, as bytes in that character set.
func charsetCodes(b *bench, charset string) [][]byte {
	var all [][]byte
	unicode := func(encode func(r rune) []byte, last rune) [][]byte {
		for r := rune(0); r <= last; r++ {
			if r < 0xD800 || r > 0xDFFF {
				all = append(all, encode(r))
			}
			if r > 0xFFFF {
				r += computed - 1
			}
		}
		return all
	}
	utf16 := func(order binary.AppendByteOrder) func(rune) []byte {
		return func(r rune) []byte {
			if r < 0x10000 {
				return order.AppendUint16(nil, uint16(r))
			}
			r -= 0x10000
			return order.AppendUint16(order.AppendUint16(nil, 0xD800+uint16(r>>10)), 0xDC00+uint16(r&0x3FF))
		}
	}
	switch charset {
	case "utf8mb3":
		return unicode(func(r rune) []byte { return []byte(string(r)) }, 0xFFFF)
	case "utf8mb4":
		return unicode(func(r rune) []byte { return []byte(string(r)) }, utf8.MaxRune)
	case "ucs2":
		return unicode(utf16(binary.BigEndian), 0xFFFF)
	case "utf16":
		return unicode(utf16(binary.BigEndian), utf8.MaxRune)
	case "utf16le":
		return unicode(utf16(binary.LittleEndian), utf8.MaxRune)
	case "utf32":
		return unicode(func(r rune) []byte { return binary.BigEndian.AppendUint32(nil, uint32(r)) }, utf8.MaxRune)
	case "binary":
		return charsetCodes(b, "latin1")
	case "gb18030":
		for n := 0; n < 126*10*126*10; n++ {
			all = append(all, []byte{0x81 + byte(n/12600), '0' + byte(n/1260%10), 0x81 + byte(n/10%126), '0' + byte(n%10)})
			if n >= 4*12600 {
				n += computed - 1
			}
		}
	}
	single := b.accepted(charset, "UNHEX(CONCAT(a.d, b.d))", 2)
	all = append(all, single...)
	if b.strings("SELECT maxlen FROM information_schema.character_sets WHERE character_set_name = '" +
		charset + "'")[0] == "1" {
		return all
	}
	alone := map[byte]bool{}
	for _, code := range single {
		alone[code[0]] = true
	}
	add := func(codes [][]byte) {
		for _, code := range codes {
			if !alone[code[0]] {
				all = append(all, code)
			}
		}
	}
	add(b.accepted(charset, "UNHEX(CONCAT(a.d, b.d, c.d, d.d))", 4))
	if charset == "ujis" || charset == "eucjpms" {
		add(b.accepted(charset, "UNHEX(CONCAT('8F', a.d, b.d, c.d, d.d))", 4))
	}
	return all
}

// accepted returns the codes that a column of the character set accepts.
func (b *bench) accepted(charset, code string, digits int) [][]byte {
	digit := "(SELECT '0' d"
	for _, d := range strings.Split("123456789ABCDEF", "") {
		digit += " UNION ALL SELECT '" + d + "'"
	}
	var from []string
	for i := range digits {
		from = append(from, digit+") "+string(rune('a'+i)))
	}
	query := "SELECT x FROM (SELECT " + code + " x FROM " + strings.Join(from, ", ") + ") c " +
		"WHERE CAST(CAST(x AS CHAR CHARACTER SET " + charset + ") AS BINARY) = x"
	if charset == "ascii" || charset == "eucjpms" { // MySQL's columns accept fewer codes than CAST
		b.exec("DROP TABLE IF EXISTS "+charset,
			"CREATE TABLE "+charset+" (code VARBINARY(4), text VARCHAR(4) CHARACTER SET "+charset+")",
			"INSERT IGNORE INTO "+charset+" SELECT x, CAST(x AS CHAR CHARACTER SET "+charset+") FROM ("+query+") c")
		query = "SELECT code FROM " + charset + " WHERE CAST(text AS BINARY) = code"
	}
	var all [][]byte
	for _, code := range b.strings(query) {
		all = append(all, []byte(code))
	}
	return all
}

// charsetTable creates a table with all codes of a character set. Each row has many codes in v, and one of these in the
// key.
func (b *bench) charsetTable(charset string) (table replicator.Table, count int) {
	codes := charsetCodes(b, charset)
	name := "cs_" + charset
	b.exec("CREATE TABLE " + name + " (id INT PRIMARY KEY AUTO_INCREMENT, k VARCHAR(9) CHARACTER SET " + charset +
		", v VARCHAR(1000) CHARACTER SET " + charset + ")")
	literal := func(codes ...[]byte) string { return fmt.Sprintf("_%s 0x%X", charset, bytes.Join(codes, nil)) }
	var rows []string
	size := 0
	flush := func() {
		b.exec("INSERT INTO " + name + "(k, v) VALUES " + strings.Join(rows, ", "))
		rows, size = nil, 0
	}
	for some := range slices.Chunk(codes, codesInRow) {
		row := "(" + literal(some[len(some)/2]) + ", " + literal(some...) + ")"
		rows = append(rows, row)
		if size += len(row); size > 4<<20 {
			flush()
		}
	}
	flush()
	return replicator.Table{Name: name, Key: []string{"id", "k"}, Columns: []string{"v"}}, len(codes)
}

func TestTailAndScanGiveTheSameTextsInEveryCharset(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		began := time.Now()
		b := newBench(t, s)
		from := b.latest(b.source())
		var tables []replicator.Table
		total := 0
		for _, charset := range b.strings("SELECT character_set_name FROM information_schema.character_sets ORDER BY 1") {
			table, n := b.charsetTable(charset)
			tables = append(tables, table)
			total += n
		}
		inserted := time.Since(began)
		src := b.source(tables...)
		reader := b.open(src, b.latest(src))
		scanned := map[replicator.Cell]any{}
		for _, table := range tables {
			for chunk := (replicator.Chunk{}); !chunk.Done; {
				var err error
				if chunk, err = reader.Scan(testContext(t), table.Name, nil, chunk.Next,
					replicator.ScanLimit{Rows: 1000}); err != nil {
					t.Fatal(err)
				}
				for _, r := range chunk.Rows {
					scanned[r.Cell] = r.Columns[0]
				}
			}
		}
		changes := b.changes(src, from)
		if len(changes) != len(scanned) {
			t.Errorf("%d rows in the tail, %d in the scan", len(changes), len(scanned))
		}
		wrong := map[string]int{}
		for _, c := range changes {
			got, want := c.Row.Columns[0], scanned[c.Cell]
			if reflect.DeepEqual(got, want) {
				continue
			}
			if wrong[c.Cell.Table]++; wrong[c.Cell.Table] == 1 {
				t.Errorf("%s: %s", c.Cell, whereTextsDiffer(got, want))
			}
		}
		t.Logf("%d codes in %d rows: made in %s, compared in %s", total, len(changes), inserted, time.Since(began)-inserted)
	})
}

// The server shows each code that has no character as '?', so many keys look alike. Rows with such keys are found
// anyway, and a scan whose chunk ends at such a key continues after it.
func TestKeysOfCodesWithoutACharacterAreFound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE k (k VARCHAR(20) CHARACTER SET sjis COLLATE sjis_bin PRIMARY KEY, n INT)")
		for n := range 40 { // the codes from 8540 on have no character; some end in a byte that is a wildcard in LIKE
			b.exec(fmt.Sprintf("INSERT INTO k VALUES (_sjis 0x41%X%X, %d), (_sjis 0x8540%X, %d)", 0x8540+n,
				n+0x25, n, n+0x30, 100+n))
		}
		src := b.source(replicator.Table{Name: "k", Key: []string{"k"}, Columns: []string{"n"}})
		reader := b.open(src, b.latest(src))
		var cells []replicator.Cell
		numbers := map[any]bool{}
		for chunk := (replicator.Chunk{}); !chunk.Done && len(cells) <= 80; {
			var err error
			if chunk, err = reader.Scan(testContext(t), "k", nil, chunk.Next, replicator.ScanLimit{Rows: 7}); err != nil {
				t.Fatal(err)
			}
			for _, r := range chunk.Rows {
				cells = append(cells, r.Cell)
				numbers[r.Columns[0]] = true
			}
		}
		if len(cells) != 80 || len(numbers) != 80 {
			t.Fatalf("the scan gave %d rows, %d of them different", len(cells), len(numbers))
		}
		rows, _, err := reader.Newest(testContext(t), cells, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if r == nil {
				t.Errorf("%s is not found", cells[i])
			}
		}
		listed, _, err := reader.Cells(testContext(t), "k", nil, "", 100)
		if err != nil || len(listed) != 80 {
			t.Errorf("%d cells are listed: %v", len(listed), err)
		}
	})
}

// The same as above, for a table whose scan walks along an index of versions.
func TestAWalkAlongVersionsGoesBehindCodesWithoutACharacter(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE c (k VARCHAR(20) CHARACTER SET sjis COLLATE sjis_bin, v BIGINT, PRIMARY KEY (k, v))")
		for n := range 10 {
			for v := range 9 {
				b.exec(fmt.Sprintf("INSERT INTO c VALUES (_sjis 0x41%X, %d)", 0x8540+n, 100*n+v))
			}
		}
		src := b.source(replicator.Table{Name: "c", Key: []string{"k"}, Version: "v", Columns: []string{"v"}})
		reader := b.open(src, b.latest(src))
		last, passed, walked := map[any]bool{}, 0, false
		for chunk := (replicator.Chunk{}); !chunk.Done && passed <= 90; {
			var err error
			if chunk, err = reader.Scan(testContext(t), "c", nil, chunk.Next, replicator.ScanLimit{Rows: 18}); err != nil {
				t.Fatal(err)
			}
			passed += chunk.Passed
			walked = walked || strings.HasPrefix(chunk.Next, walkPlace)
			for _, r := range chunk.Rows {
				last[r.Columns[0]] = true
			}
		}
		if passed != 90 || !walked || !last[int64(908)] {
			t.Errorf("the scan passed %d rows of 90, walking: %t; it gave %v", passed, walked, last)
		}
	})
}

func whereTextsDiffer(tail, scan any) string {
	a, isText := tail.(string)
	b, ok := scan.(string)
	if !isText || !ok {
		return fmt.Sprintf("tail %T %s, scan %T %s", tail, short(tail), scan, short(scan))
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	i = max(i-8, 0)
	return fmt.Sprintf("from byte %d on: tail %s, scan %s", i, short(a[i:]), short(b[i:]))
}

// strings returns the values of a query's first column.
func (b *bench) strings(query string) (all []string) {
	b.t.Helper()
	rows, err := b.db.QueryContext(testContext(b.t), query)
	if err != nil {
		b.t.Fatal(err)
	}
	err = eachRow(rows, func() error {
		var s string
		err := rows.Scan(&s)
		all = append(all, s)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}
