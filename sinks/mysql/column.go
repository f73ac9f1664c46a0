package mysql

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"replicator"
	"replicator/internal/uuid"
)

type column struct {
	name, quoted  string
	typ           string // DATA_TYPE, in lower case, but "json" for MariaDB's JSON
	declared      string // COLUMN_TYPE, such as varchar(10)
	nullable      bool
	optional      bool // a row can be inserted without a value for the column
	autoIncrement bool
	generated     bool
	updates       bool // ON UPDATE CURRENT_TIMESTAMP
	textual       bool // MariaDB's JSON, which is a LONGTEXT with a CHECK
	unsigned      bool
	chars, bytes  int64 // the longest value that the column accepts
	precision     int
	scale         int
	fraction      int // digits after the point: 3 for DATETIME(3)
	charset       string
	collation     string
	members       []string
	comment       string // the COMMENT, which says for what purpose the program made the column
}

var converters = map[string]func(*column, any) (any, error){
	"tinyint": (*column).integer, "smallint": (*column).integer, "mediumint": (*column).integer,
	"int": (*column).integer, "bigint": (*column).integer, "year": (*column).year, "bit": (*column).bit,
	"decimal": (*column).decimal, "float": (*column).float, "double": (*column).float,
	"char": (*column).text, "varchar": (*column).text,
	"tinytext": (*column).text, "text": (*column).text, "mediumtext": (*column).text, "longtext": (*column).text,
	"binary": (*column).binary, "varbinary": (*column).binary,
	"tinyblob": (*column).binary, "blob": (*column).binary, "mediumblob": (*column).binary, "longblob": (*column).binary,
	"date": (*column).date, "datetime": (*column).dateTime, "timestamp": (*column).dateTime, "time": (*column).timeOfDay,
	"enum": (*column).enum, "set": (*column).set, "json": (*column).json,
	"uuid": (*column).uuid, "inet4": (*column).inet, "inet6": (*column).inet,
}

func (c *column) known() bool { return converters[c.typ] != nil }

// collates reports whether the column may treat different values as equal, because its collation ignores case, accents
// or trailing spaces. Most _bin collations ignore trailing spaces, too.
func (c *column) collates() bool {
	return c.typ == "char" || c.typ == "varchar" || strings.HasSuffix(c.typ, "text")
}

// convert converts a value of the replicator's model (see replicator.Entry) to one that the column holds unchanged. The
// result is bound without further conversion: nil, int64, uint64, float64, string or []byte. The error for a value that
// doesn't fit never quotes the value.
func (c *column) convert(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	return converters[c.typ](c, v)
}

// appendCompared appends a bound value that is compared with the column. It casts a DECIMAL, because the server would
// compare it with a bare text as DOUBLEs. It casts a TIME(3), because MySQL 9.7 compares some of them as texts, where
// '09:30:00.000' differs from '09:30:00'.
func (c *column) appendCompared(b []byte, bound any) []byte {
	switch {
	case c.typ == "decimal":
		return fmt.Appendf(appendLiteral(append(b, "CAST("...), bound), " AS DECIMAL(%d,%d))", c.precision, c.scale)
	case c.typ == "time" && c.fraction > 0:
		return fmt.Appendf(appendLiteral(append(b, "CAST("...), bound), " AS TIME(%d))", c.fraction)
	}
	return appendLiteral(b, bound)
}

func (c *column) wrong(v any) error {
	kind := "a value of another kind"
	switch v.(type) {
	case bool:
		kind = "a boolean"
	case int64, uint64:
		kind = "an integer"
	case float64, replicator.Number:
		kind = "a number"
	case string:
		kind = "a text"
	case []byte:
		kind = "bytes"
	case []any:
		kind = "a list"
	case replicator.Object:
		kind = "an object"
	case replicator.RawJSON:
		kind = "a JSON document"
	}
	return fmt.Errorf("%s can't be stored as %s", kind, c.declared)
}

func (c *column) misfit(why string) error { return misfitError{c, why} }

// text converts a value to CHAR, VARCHAR or a TEXT type. Texts stay unchanged, numbers keep all digits, and lists and
// objects become JSON. Bytes must be valid text, except that 16 bytes become a UUID in a CHAR(36) or CHAR(32).
func (c *column) text(v any) (any, error) {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case []byte:
		if len(v) == 16 && c.typ == "char" && (c.chars == 36 || c.chars == 32) {
			if s = uuid.Text(v); c.chars == 32 {
				s = hex.EncodeToString(v)
			}
			break
		}
		s = string(v)
	case int64, uint64, float64, replicator.Number, bool, replicator.RawJSON:
		s = replicator.FormatValue(v)
	case []any, replicator.Object:
		text, err := replicator.AppendExactJSON(nil, v, math.MaxInt)
		if err != nil {
			return nil, c.wrong(v)
		}
		s = string(text)
	default:
		return nil, c.wrong(v)
	}
	if err := c.holds(s); err != nil {
		return nil, err
	}
	if _, same := v.(string); same {
		return v, nil // v unchanged, because a new interface value would be an allocation
	}
	return s, nil
}

// holds returns an error if the column would cut, change or refuse a text. It doesn't look for characters that a
// character set such as latin1 lacks, because the server refuses them.
func (c *column) holds(s string) error {
	if !replicator.ValidText(s) {
		return c.misfit("a text that is not valid UTF-8")
	}
	if c.charset == "utf8mb3" || c.charset == "utf8" {
		for _, r := range s {
			if r > 0xffff {
				return c.misfit("a character beyond the " + c.charset + " set")
			}
		}
	}
	if c.typ == "char" || c.typ == "varchar" {
		if n := int64(utf8.RuneCountInString(s)); n > c.chars {
			return c.misfit(fmt.Sprintf("a text of %d characters", n))
		}
		if c.typ == "char" && strings.HasSuffix(s, " ") {
			return c.misfit("a text that ends in a space, which CHAR does not keep,")
		}
	} else if n := int64(len(s)); n > c.bytes && strings.HasPrefix(c.charset, "utf8") {
		return c.misfit(fmt.Sprintf("a text of %d bytes", n))
	}
	return nil
}

// binary converts a value to BINARY, VARBINARY or a BLOB type. Bytes stay unchanged, and texts become their bytes. For
// BINARY(16), a UUID in text form becomes its 16 bytes.
func (c *column) binary(v any) (any, error) {
	var b []byte
	switch v := v.(type) {
	case []byte:
		b = v
	case string:
		b = []byte(v)
		if c.typ == "binary" && c.chars == 16 {
			if id, ok := uuid.Parse(v); ok {
				b = id
			}
		}
	case int64, uint64, float64, replicator.Number, replicator.RawJSON:
		if c.typ == "binary" {
			return nil, c.wrong(v)
		}
		b = []byte(replicator.FormatValue(v))
	default:
		return nil, c.wrong(v)
	}
	n := int64(len(b))
	switch {
	case n > c.bytes:
		return nil, c.misfit(fmt.Sprintf("a value of %d bytes", n))
	case c.typ == "binary" && n < c.bytes: // the server would add zero bytes
		return nil, c.misfit(fmt.Sprintf("a value of only %d bytes", n))
	}
	if b == nil {
		return []byte{}, nil
	}
	if _, same := v.([]byte); same {
		return v, nil
	}
	return b, nil
}

func (c *column) uuid(v any) (any, error) {
	switch v := v.(type) {
	case string:
		if b, ok := uuid.Parse(v); ok {
			return uuid.Text(b), nil
		}
		return nil, c.misfit("a text that is not a UUID")
	case []byte:
		if len(v) != 16 {
			return nil, c.misfit(fmt.Sprintf("a value of %d bytes", len(v)))
		}
		return uuid.Text(v), nil
	}
	return nil, c.wrong(v)
}

func (c *column) inet(v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return nil, c.wrong(v)
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4() != (c.typ == "inet4") {
		return nil, c.misfit("a text that is not an address of this type")
	}
	return a.String(), nil
}

// enum converts to a member of an ENUM. A text that differs from a member only in case or accents is refused, even if
// the collation treats both as equal.
func (c *column) enum(v any) (any, error) {
	s, ok := v.(string)
	if b, isBytes := v.([]byte); isBytes {
		s, ok = string(b), true
	}
	if !ok {
		return nil, c.wrong(v)
	}
	if !slices.Contains(c.members, s) {
		return nil, fmt.Errorf("the text is not exactly a member of the column's ENUM")
	}
	return s, nil
}

// set converts a list of texts, or texts separated by commas, to a SET.
func (c *column) set(v any) (any, error) {
	var parts []string
	switch v := v.(type) {
	case string:
		if v != "" {
			parts = strings.Split(v, ",")
		}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, c.wrong(v)
			}
			parts = append(parts, s)
		}
	default:
		return nil, c.wrong(v)
	}
	for _, p := range parts {
		if !slices.Contains(c.members, p) {
			return nil, fmt.Errorf("a text is not exactly a member of the column's SET")
		}
	}
	// The members are in the declaration's order, as the server shows them, because the result is compared with the
	// server's text.
	shown := slices.DeleteFunc(slices.Clone(c.members), func(m string) bool { return !slices.Contains(parts, m) })
	return strings.Join(shown, ","), nil
}

// members parses the members in a declaration such as enum('a','b'). A doubled quote in a member means one quote.
func members(declared string) []string {
	open := strings.IndexByte(declared, '(')
	if open < 0 {
		return nil
	}
	var out []string
	var b strings.Builder
	inside := false
	rest := declared[open+1:]
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] != '\'':
			if inside {
				b.WriteByte(rest[i])
			}
		case !inside:
			inside = true
		case i+1 < len(rest) && rest[i+1] == '\'':
			b.WriteByte('\'')
			i++
		default:
			out = append(out, b.String())
			b.Reset()
			inside = false
		}
	}
	return out
}
