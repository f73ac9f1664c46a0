package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"replicator/canal/gtid"
)

// charset converts a column's bytes to UTF-8 as the server does. A nil charset is "binary".
//
// UTF-8, UTF-16, UTF-32 and latin1 are computed. Every other set is converted by the server's own table, because the
// tables of MySQL, MariaDB and other programs differ.
type charset struct {
	name   string
	form   form
	flavor gtid.Flavor
	codes  *Codes // only for formTable: the conversion table; nil until learn has read it from the server
}

type form uint8

const (
	formTable form = iota
	formUTF8
	formASCII
	formLatin1
	formUCS2
	formUTF16
	formUTF16LE
	formUTF32
)

var forms = map[string]form{
	"utf8mb4": formUTF8, "utf8mb3": formUTF8, "utf8": formUTF8, "ascii": formASCII, "latin1": formLatin1,
	"ucs2": formUCS2, "utf16": formUTF16, "utf16le": formUTF16LE, "utf32": formUTF32,
}

// NeedsTable reports whether a character set can't be computed, so that we ask the server for its table.
func NeedsTable(charset string) bool { return forms[charset] == formTable }

// Charsets has the character sets of one server, by name and by the id of a collation.
type Charsets struct {
	Collations map[uint64]string // collation ID → name of its character set
	sets       map[string]*charset

	// Ask reads the conversion table of a character set from the server. It is called only if the set can't be computed.
	Ask func(ctx context.Context, charset string) (*Codes, error)
}

// NewCharsets returns the character sets of a server's collations. Their conversion tables are read from the server
// later, when they are first needed (learn).
func NewCharsets(f gtid.Flavor, collations map[uint64]string) Charsets {
	c := Charsets{Collations: collations, sets: map[string]*charset{"binary": nil}}
	for _, name := range collations {
		if _, ok := c.sets[name]; !ok {
			c.sets[name] = &charset{name: name, form: forms[name], flavor: f}
		}
	}
	return c
}

// byID finds a collation's character set; nil for binary.
func (c Charsets) byID(id uint64) (set *charset, known bool) {
	name, ok := c.Collations[id]
	if !ok {
		return nil, false
	}
	return c.sets[name], true
}

// byName finds a character set by its name; nil for "", which binary columns have in information_schema.
func (c Charsets) byName(name string) (set *charset, known bool) {
	if name == "" {
		return nil, true
	}
	set, known = c.sets[name]
	return set, known
}

// learn reads set's conversion table from the server, unless set needs none or already has it. It must be called before
// set converts text.
func (c Charsets) learn(ctx context.Context, set *charset) (err error) {
	if set == nil || set.form != formTable || set.codes != nil {
		return nil
	}
	if set.codes, err = c.Ask(ctx, set.name); err != nil {
		return fmt.Errorf("reading the source's character set %s: %w", set.name, err)
	}
	return nil
}

// Decode converts a statement's text to UTF-8 from the character set of a collation. It does not change text of an
// unknown collation. Nor does it change ASCII, because the servers parse every statement as ASCII.
func (c Charsets) Decode(ctx context.Context, collation uint64, statement []byte) ([]byte, error) {
	set, known := c.byID(collation)
	if !known || isASCII(statement) {
		return statement, nil
	}
	if err := c.learn(ctx, set); err != nil {
		return nil, err
	}
	return set.Bytes(statement), nil
}

func (c *charset) text(b []byte) string { return string(c.Bytes(b)) }

// Bytes converts b to UTF-8. The result may be b itself.
func (c *charset) Bytes(b []byte) []byte {
	if c == nil || c.form == formUTF8 {
		return b
	}
	switch c.form {
	case formASCII, formLatin1:
		if isASCII(b) {
			return b
		}
	case formTable:
		if c.codes.ascii && isASCII(b) {
			return b
		}
	}
	out := make([]byte, 0, len(b)+len(b)/2)
	switch c.form {
	case formASCII:
		for _, x := range b {
			out = append(out, asciiByte(x))
		}
	case formLatin1:
		for _, x := range b {
			out = utf8.AppendRune(out, latin1(x))
		}
	case formTable:
		out = c.codes.append(out, b)
	default:
		out = c.appendWide(out, b)
	}
	return out
}

func isASCII(b []byte) bool {
	for _, x := range b {
		if x >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// asciiByte replaces bytes above 127 in an ascii column: the servers store them, but show them as '?'.
func asciiByte(x byte) byte {
	if x >= utf8.RuneSelf {
		return '?'
	}
	return x
}

// windows1252 has the Windows-1252 characters of the bytes 0x80 to 0x9F; 0 for a byte without a character.
var windows1252 = [32]rune{
	'€', 0, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0, 'Ž', 0,
	0, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0, 'ž', 'Ÿ',
}

// latin1 is the servers' latin1: Windows-1252, with control characters for its five unused bytes.
func latin1(x byte) rune {
	if x >= 0x80 && x < 0xA0 && windows1252[x-0x80] != 0 {
		return windows1252[x-0x80]
	}
	return rune(x)
}

// appendWide converts UCS-2, UTF-16 and UTF-32. Only UTF-16 has surrogates, but the servers accept surrogates in
// columns of the other two as well.
func (c *charset) appendWide(out, b []byte) []byte {
	width := 2
	if c.form == formUTF32 {
		width = 4
	}
	for ; len(b) >= width; b = b[width:] {
		r := c.unit(b)
		if c.form != formUCS2 && c.form != formUTF32 && utf16.IsSurrogate(r) && len(b) >= 4 {
			r = utf16.DecodeRune(r, c.unit(b[2:]))
			b = b[2:]
		}
		switch {
		case !utf16.IsSurrogate(r):
			out = utf8.AppendRune(out, r)
		case c.form == formUTF32 && c.flavor == gtid.MySQL: // MySQL drops a surrogate in UTF-32 and everything after it
			return out
		default: // surrogates are encoded as if they were characters
			out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
		}
	}
	return out
}

func (c *charset) unit(b []byte) rune {
	switch c.form {
	case formUTF32:
		return rune(binary.BigEndian.Uint32(b))
	case formUTF16LE:
		return rune(binary.LittleEndian.Uint16(b))
	}
	return rune(binary.BigEndian.Uint16(b))
}
