package canal

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// charset turns a column's bytes into UTF-8. A nil charset is "binary".
type charset struct {
	name    string
	table   *[256]rune        // a single-byte set; nil otherwise
	other   encoding.Encoding // a multi-byte set; nil otherwise
	units   int               // UTF-16 and UTF-32: bytes of a unit
	little  bool
	problem error // why it can't be converted
}

// charsets knows the server's collations.
type charsets struct {
	collations map[uint64]string // id → character set's name
	sets       map[string]*charset
}

func newCharsets(collations map[uint64]string) charsets {
	c := charsets{collations: collations, sets: map[string]*charset{}}
	for _, name := range collations {
		if _, ok := c.sets[name]; !ok {
			c.sets[name] = newCharset(name)
		}
	}
	return c
}

// byID finds a collation's character set; nil for binary.
func (c charsets) byID(id uint64) (set *charset, known bool) {
	name, ok := c.collations[id]
	if !ok {
		return nil, false
	}
	return c.sets[name], true
}

// byName finds a character set by its name; nil for binary, whose columns have none in information_schema.
func (c charsets) byName(name string) (set *charset, known bool) {
	if name == "" || name == "binary" {
		return nil, true
	}
	set, known = c.sets[name]
	return set, known
}

func newCharset(name string) *charset {
	c := &charset{name: name}
	switch name {
	case "binary":
		return nil
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
	case "latin1":
		c.table = latin1()
	case "ucs2", "utf16":
		c.units = 2
	case "utf16le":
		c.units, c.little = 2, true
	case "utf32":
		c.units = 4
	case "gbk":
		c.other = simplifiedchinese.GBK
	case "gb2312":
		c.other = simplifiedchinese.GBK
	case "gb18030":
		c.other = simplifiedchinese.GB18030
	case "big5":
		c.other = traditionalchinese.Big5
	case "sjis", "cp932":
		c.other = japanese.ShiftJIS
	case "ujis", "eucjpms":
		c.other = japanese.EUCJP
	case "euckr":
		c.other = korean.EUCKR
	default:
		m, ok := singleByte()[name]
		if !ok {
			c.problem = fmt.Errorf("its character set %s can't be converted; convert the column to utf8mb4", name)
			return c
		}
		c.table = new([256]rune)
		for i := range c.table {
			c.table[i] = m.DecodeByte(byte(i))
		}
	}
	return c
}

func singleByte() map[string]*charmap.Charmap {
	return map[string]*charmap.Charmap{
		"latin2": charmap.ISO8859_2, "latin5": charmap.ISO8859_9, "latin7": charmap.ISO8859_13, "greek": charmap.ISO8859_7,
		"hebrew": charmap.ISO8859_8, "cp850": charmap.CodePage850, "cp852": charmap.CodePage852, "cp866": charmap.CodePage866,
		"cp1250": charmap.Windows1250, "cp1251": charmap.Windows1251, "cp1256": charmap.Windows1256, "cp1257": charmap.Windows1257,
		"koi8r": charmap.KOI8R, "koi8u": charmap.KOI8U, "macroman": charmap.Macintosh, "tis620": charmap.Windows874,
	}
}

// latin1 is MySQL's: Windows-1252, whose five holes are control characters.
func latin1() *[256]rune {
	var t [256]rune
	for i := range t {
		t[i] = charmap.Windows1252.DecodeByte(byte(i))
		if t[i] == '\uFFFD' {
			t[i] = rune(i)
		}
	}
	return &t
}

// text converts b, copying it.
func (c *charset) text(b []byte) string {
	switch {
	case c == nil:
	case c.table != nil:
		ascii := true
		for _, x := range b {
			ascii = ascii && x < 0x80
		}
		if ascii {
			break
		}
		var s strings.Builder
		s.Grow(len(b) + len(b)/2)
		for _, x := range b {
			s.WriteRune(c.table[x])
		}
		return s.String()
	case c.units > 0:
		return c.wide(b)
	case c.other != nil:
		if out, err := c.other.NewDecoder().Bytes(b); err == nil {
			return string(out)
		}
	}
	return string(b)
}

// bytes converts b; the result may be b itself.
func (c *charset) bytes(b []byte) []byte {
	if c == nil || c.table == nil && c.other == nil && c.units == 0 {
		return b
	}
	return []byte(c.text(b))
}

func (c *charset) wide(b []byte) string {
	var runes []rune
	var units []uint16
	for ; len(b) >= c.units; b = b[c.units:] {
		switch {
		case c.units == 4:
			runes = append(runes, rune(binary.BigEndian.Uint32(b)))
		case c.little:
			units = append(units, binary.LittleEndian.Uint16(b))
		default:
			units = append(units, binary.BigEndian.Uint16(b))
		}
	}
	return string(append(runes, utf16.Decode(units)...))
}
