package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Codes converts a character set to UTF-8 as one server does. A code is the byte sequence of one character. single has
// the codes of one byte, pairs those of two bytes, and long the longer ones. A code without a character maps to '?'.
// Bytes that are not a code map to noCode.
//
// If a text ends inside a code, end has what the server shows for the text's last byte.
type Codes struct {
	ascii  bool
	single [256]rune
	end    [256]string
	pairs  [65536]rune
	long   []rune
	length int // the length of long codes; 0: the set has none
}

const noCode rune = -1

// NewCodes returns an empty table for a character set. Put fills it.
func NewCodes(charset string) *Codes {
	c := &Codes{ascii: true}
	switch charset {
	case "ujis", "eucjpms":
		c.length, c.long = 3, make([]rune, 1<<16)
	case "gb18030":
		c.length, c.long = 4, make([]rune, 4*10*126*10)
	}
	fill(c.pairs[:])
	fill(c.single[:])
	fill(c.long)
	return c
}

// Put adds a code of one or two bytes.
func (c *Codes) Put(code string, r rune) {
	if len(code) == 1 {
		c.single[code[0]] = r
		return
	}
	c.pairs[int(code[0])<<8|int(code[1])] = r
}

func (c *Codes) append(out, b []byte) []byte {
	for len(b) > 0 {
		r, n := c.next(b)
		if n == 0 {
			return append(out, c.end[b[0]]...)
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}

// next reads the first code of b. It returns the code's character and length; length 0 if b may end inside a code.
func (c *Codes) next(b []byte) (r rune, n int) {
	if r := c.single[b[0]]; r != noCode {
		return r, 1
	}
	if len(b) == 1 {
		return 0, 0
	}
	if r := c.pairs[int(b[0])<<8|int(b[1])]; r != noCode {
		return r, 2
	}
	if c.length > 0 && len(b) >= c.length {
		if r := c.longCode(b[:c.length]); r != noCode {
			return r, c.length
		}
	}
	return '?', 1
}

func (c *Codes) longCode(code []byte) rune {
	rank, ok := longRank(code)
	switch {
	case !ok:
		return noCode
	case rank < len(c.long):
		return c.long[rank]
	case rank >= gbSupplement && rank-gbSupplement < 0x100000:
		return 0x10000 + rune(rank-gbSupplement)
	}
	return '?'
}

// gbSupplement is the rank (see longRank) of GB 18030's code 90308130. The codes from there on mean the characters from
// U+10000 on, in order, so they are computed. The server's table is needed only for long codes whose first byte is 81
// to 84.
const gbSupplement = (0x90 - 0x81) * 10 * 126 * 10

// longRank returns the index of a long code in Codes.long. Long codes are those of JIS X 0212, which begin with 8F in
// ujis and eucjpms, and those of GB 18030.
func longRank(code []byte) (rank int, ok bool) {
	if len(code) == 3 {
		return int(code[1])<<8 | int(code[2]), code[0] == 0x8F
	}
	for i, b := range code {
		first, last, size := byte(0x81), byte(0xFE), 126
		if i%2 == 1 {
			first, last, size = '0', '9', 10
		}
		if b < first || b > last {
			return 0, false
		}
		rank = rank*size + int(b-first)
	}
	return rank, true
}

// Sets of hexadecimal digits.
const (
	anyDigit  = "0123456789ABCDEF"
	highDigit = "89ABCDEF" // the first digits of the bytes from 80 to FF
	decimal   = "0123456789"
)

// The possible digits of a code, one set for each digit.
var (
	singleDigits = []string{anyDigit, anyDigit}
	pairDigits   = []string{highDigit, anyDigit, anyDigit, anyDigit}
	jisDigits    = []string{"8", "F", highDigit, anyDigit, highDigit, anyDigit}
	gbDigits     = []string{"8", "1234", "3", decimal, highDigit, anyDigit, "3", decimal}
)

// readCodes reads a character set's conversion table from a server: some ten thousand codes in a tenth of a second.
func readCodes(ctx context.Context, db queryer, charset string) (*Codes, error) {
	c := NewCodes(charset)
	whole := true
	err := eachCode(ctx, db, charset, singleDigits, func(code []byte, r rune, text string) {
		c.Put(string(code), r)
		c.end[code[0]] = text
	})
	for i, r := range c.single {
		c.ascii = c.ascii && (i >= utf8.RuneSelf || r == rune(i))
		whole = whole && r != noCode
	}
	if err != nil || whole {
		return c, err
	}
	err = eachCode(ctx, db, charset, pairDigits, func(code []byte, r rune, _ string) {
		c.Put(string(code), r)
	})
	if err != nil {
		return nil, err
	}
	var digits []string
	switch c.length {
	case 3:
		digits = jisDigits
	case 4:
		digits = gbDigits
	default:
		return c, nil
	}
	return c, eachCode(ctx, db, charset, digits, func(code []byte, r rune, _ string) {
		if rank, ok := longRank(code); ok {
			c.long[rank] = r
		}
	})
}

func fill(runes []rune) {
	for i := range runes {
		runes[i] = noCode
	}
}

// eachCode calls f for each combination of the digits that the server accepts as a text, with the text in UTF-8 and its
// only character (r). r is noCode if the text does not have exactly one: the bytes are two codes, or a part of one.
func eachCode(ctx context.Context, db queryer, charset string, digits []string,
	f func(code []byte, r rune, text string)) error {
	var places, from []string
	for i, set := range digits {
		places = append(places, fmt.Sprintf("x%d.d", i))
		from = append(from, fmt.Sprintf("(SELECT '%s' d) x%d",
			strings.Join(strings.Split(set, ""), "' d UNION ALL SELECT '"), i))
	}
	query := "SELECT b, t FROM (SELECT b, CAST(b AS CHAR CHARACTER SET " + charset + ") t FROM (SELECT UNHEX(CONCAT(" +
		strings.Join(places, ", ") + ")) b FROM " + strings.Join(from, ", ") + ") bytes) texts WHERE CAST(t AS BINARY) = b"
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var code, text sql.RawBytes
		if err := rows.Scan(&code, &text); err != nil {
			return err
		}
		r, n := utf8.DecodeRune(text)
		if n == 0 || n != len(text) {
			r = noCode
		}
		f(code, r, string(text))
	}
	return rows.Err()
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// CodeTables caches the character sets that servers were asked for, by server version.
type CodeTables struct {
	mu    sync.Mutex
	known map[codesKey]*Codes
}

type codesKey struct{ version, charset string }

// Of returns the character set of a server of this version. It asks only once for each version and character set.
func (t *CodeTables) Of(ctx context.Context, version, charset string,
	connect func(context.Context) (*sql.Conn, error)) (*Codes, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := codesKey{version, charset}
	if c, ok := t.known[key]; ok {
		return c, nil
	}
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	c, err := readCodes(ctx, conn, charset)
	if err != nil {
		return nil, err
	}
	if t.known == nil {
		t.known = map[codesKey]*Codes{}
	}
	t.known[key] = c
	return c, nil
}
