package canal

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"replicator"
)

// kind is how a column's values are stored in a row image and what they become. This is the one type table; text.go
// turns what a SELECT returns into the same values.
//
//	column                          value
//	TINYINT … BIGINT, YEAR, BIT     int64; uint64 above the largest int64
//	DECIMAL                         Number: the server's digits, without ZEROFILL's zeroes
//	FLOAT, DOUBLE                   float64: the shortest decimal that is that FLOAT, the DOUBLE itself
//	DATE, DATETIME, TIMESTAMP, TIME string in the server's form, fractions to the column's digits, TIMESTAMP in UTC
//	CHAR, VARCHAR, TEXT, ENUM, SET  string in UTF-8
//	BINARY, VARBINARY, BLOB,        []byte, BINARY padded to its length
//	GEOMETRY, VECTOR                []byte as the server stores it
//	JSON (MySQL)                    RawJSON as the server prints it; MariaDB's is text
//	UUID, INET4, INET6 (MariaDB)    string as the server prints it
type kind uint8

const (
	kindInt kind = iota + 1
	kindFloat
	kindDouble
	kindDecimal
	kindBit
	kindYear
	kindDate
	kindTimeOld
	kindTime
	kindDatetimeOld
	kindDatetime
	kindTimestampOld
	kindTimestamp
	kindText
	kindBytes
	kindEnum
	kindSet
	kindJSON
	kindUUID
	kindInet4
	kindInet6
)

// column is one column of a row image.
type column struct {
	name string
	kind kind

	width  int // bytes of a value; 0: a length of prefix bytes stands before it
	prefix int

	unsigned  bool
	precision int // DECIMAL's digits
	fraction  int // DECIMAL's digits after the point; fractional digits of a time
	pad       int // BINARY(n): the binlog has the trailing zero bytes of values cut off
	charset   *charset
	packed    bool // MariaDB's COMPRESSED
	members   []string
	raw       [][]byte // members in the column's charset, which learn decodes
	problem   error    // why its values can't be read: an error only if somebody wants them
}

// newColumn makes the column of a table map's column i. declared is what information_schema says of it now: it fills in
// what the binlog doesn't say. It may be nil.
func newColumn(m *tableMap, i int, declared *declared, charsets charsets) (column, error) {
	c := column{}
	t, meta := m.types[i], int(m.metas[i])
	if t == mysql.MYSQL_TYPE_STRING {
		// CHAR(n) above 255 bytes hides two bits of its length in the real type.
		if hi := meta >> 8; hi != 0 {
			if hi&0x30 != 0x30 {
				t, meta = byte(hi|0x30), meta&0xff|(hi&0x30^0x30)<<4
			} else {
				t, meta = byte(hi), meta&0xff
			}
		}
	}
	if declared != nil {
		c.name = declared.name
	}
	if m.names != nil {
		c.name = string(m.names[i])
	}
	if err := c.measure(t, meta); err != nil {
		return c, err
	}
	if c.width == 0 && (c.prefix < 1 || c.prefix > 4) || c.width > 65 || c.fraction > 30 {
		return c, fmt.Errorf("column %s: type %d with metadata %d", c.name, t, m.metas[i])
	}
	c.describe(m, i, declared, charsets)
	return c, nil
}

// fixedTypes are those whose values are always as long.
var fixedTypes = map[byte]column{
	mysql.MYSQL_TYPE_TINY:      {kind: kindInt, width: 1},
	mysql.MYSQL_TYPE_SHORT:     {kind: kindInt, width: 2},
	mysql.MYSQL_TYPE_INT24:     {kind: kindInt, width: 3},
	mysql.MYSQL_TYPE_LONG:      {kind: kindInt, width: 4},
	mysql.MYSQL_TYPE_LONGLONG:  {kind: kindInt, width: 8},
	mysql.MYSQL_TYPE_FLOAT:     {kind: kindFloat, width: 4},
	mysql.MYSQL_TYPE_DOUBLE:    {kind: kindDouble, width: 8},
	mysql.MYSQL_TYPE_YEAR:      {kind: kindYear, width: 1},
	mysql.MYSQL_TYPE_DATE:      {kind: kindDate, width: 3},
	mysql.MYSQL_TYPE_NEWDATE:   {kind: kindDate, width: 3},
	mysql.MYSQL_TYPE_TIME:      {kind: kindTimeOld, width: 3},
	mysql.MYSQL_TYPE_DATETIME:  {kind: kindDatetimeOld, width: 8},
	mysql.MYSQL_TYPE_TIMESTAMP: {kind: kindTimestampOld, width: 4},
}

// measure fills in the kind of a type and the length of its values.
func (c *column) measure(t byte, meta int) error {
	if fixed, ok := fixedTypes[t]; ok {
		c.kind, c.width = fixed.kind, fixed.width
		return nil
	}
	switch t {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		c.kind, c.precision, c.fraction = kindDecimal, meta>>8, meta&0xff
		c.width = decimalSize(c.precision, c.fraction)
		if c.width <= 0 {
			return fmt.Errorf("column %s: DECIMAL(%d,%d)", c.name, c.precision, c.fraction)
		}
	case mysql.MYSQL_TYPE_BIT:
		bits := meta>>8*8 + meta&0xff
		c.kind, c.width = kindBit, (bits+7)/8
	case mysql.MYSQL_TYPE_TIME2:
		c.kind, c.fraction, c.width = kindTime, meta, 3+(meta+1)/2
	case mysql.MYSQL_TYPE_DATETIME2:
		c.kind, c.fraction, c.width = kindDatetime, meta, 5+(meta+1)/2
	case mysql.MYSQL_TYPE_TIMESTAMP2:
		c.kind, c.fraction, c.width = kindTimestamp, meta, 4+(meta+1)/2
	case mysql.MYSQL_TYPE_ENUM:
		c.kind, c.width = kindEnum, meta&0xff
	case mysql.MYSQL_TYPE_SET:
		c.kind, c.width = kindSet, meta&0xff
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, typeVarcharCompressed:
		c.kind, c.prefix, c.packed = kindText, 1, t == typeVarcharCompressed
		if meta > 255 {
			c.prefix = 2
		}
		if t == mysql.MYSQL_TYPE_STRING {
			c.pad = meta
		}
	case mysql.MYSQL_TYPE_BLOB, typeBlobCompressed:
		c.kind, c.prefix, c.packed = kindText, meta, t == typeBlobCompressed
	case mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		c.kind, c.prefix = kindBytes, meta
	case mysql.MYSQL_TYPE_JSON:
		c.kind, c.prefix = kindJSON, meta
	default:
		return fmt.Errorf("column %s has type %d, which is not known", c.name, t)
	}
	return nil
}

// describe fills in what decides about values but not about their length.
func (c *column) describe(m *tableMap, i int, declared *declared, charsets charsets) {
	switch c.kind {
	case kindInt:
		switch {
		case m.signs:
			c.unsigned = m.unsigned[i]
		case declared != nil:
			c.unsigned = declared.unsigned
		default:
			c.problem = errors.New("the binlog doesn't say whether it is UNSIGNED")
		}
	case kindEnum, kindSet:
		switch {
		case m.hasMembers:
			c.raw = m.members[i]
			if m.charsets {
				c.charset, _ = charsets.byID(m.collations[i])
			}
		case declared != nil && declared.members != nil:
			c.members = declared.members
		default:
			c.problem = errors.New("the binlog doesn't name its members")
		}
	case kindText:
		if declared != nil && declared.special != 0 && c.pad > 0 {
			c.kind = declared.special
			return
		}
		var known bool
		switch {
		case m.charsets:
			c.charset, known = charsets.byID(m.collations[i])
		case declared != nil:
			c.charset, known = charsets.byName(declared.charset)
		}
		switch {
		case !known && m.charsets:
			c.problem = fmt.Errorf("its collation %d is not known", m.collations[i])
		case !known:
			c.problem = errors.New("the binlog doesn't say its character set")
		case c.charset == nil: // binary
			c.kind = kindBytes
		}
		if c.kind == kindText {
			c.pad = 0
		}
	}
}

// learn reads what decoding the column's texts needs. It comes before value.
func (c *column) learn(ctx context.Context, charsets charsets) error {
	if err := charsets.learn(ctx, c.charset); err != nil {
		return err
	}
	for _, b := range c.raw {
		c.members = append(c.members, c.charset.text(b))
	}
	c.raw = nil
	return nil
}

// size is how many bytes the value at the beginning of data takes, its length included; negative if data is too short.
func (c *column) size(data []byte) int {
	n := c.width
	if n == 0 {
		if len(data) < c.prefix {
			return -1
		}
		switch c.prefix {
		case 1:
			n = 1 + int(data[0])
		case 2:
			n = 2 + int(binary.LittleEndian.Uint16(data))
		case 3:
			n = 3 + (int(data[0]) | int(data[1])<<8 | int(data[2])<<16)
		default:
			n = 4 + int(binary.LittleEndian.Uint32(data))
		}
	}
	if n > len(data) {
		return -1
	}
	return n
}

// errPacked: a value of a COMPRESSED column that doesn't unpack.
var errPacked = errors.New("the COMPRESSED value is damaged")

// unpack undoes MariaDB's COMPRESSED (Field_longstr::uncompress): a byte that says how, the length, a zlib or raw
// deflate stream. An empty value stays empty.
func unpack(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return data, nil
	}
	method, n := data[0]>>4, int(data[0]&7)
	switch {
	case method == 0:
		return data[1:], nil
	case method != 8 || n > 4 || len(data) < 1+n:
		return nil, errPacked
	}
	size := bigEndian(data[1 : 1+n])
	in := bytes.NewReader(data[1+n:])
	var r io.ReadCloser
	if data[0]&8 != 0 {
		r = flate.NewReader(in)
	} else {
		var err error
		if r, err = zlib.NewReader(in); err != nil {
			return nil, errPacked
		}
	}
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(r, int64(size)+1)); err != nil || uint64(out.Len()) != size {
		return nil, errPacked
	}
	return out.Bytes(), nil
}

// value decodes one value, given without its length. It owns what it returns.
func (c *column) value(data []byte) (any, error) {
	if c.problem != nil {
		return nil, c.problem
	}
	switch c.kind {
	case kindInt:
		if c.unsigned {
			return unsigned(littleEndian(data)), nil
		}
		return signed(littleEndian(data), c.width), nil
	case kindBit:
		return unsigned(bigEndian(data)), nil
	case kindYear:
		if data[0] == 0 {
			return int64(0), nil
		}
		return int64(data[0]) + 1900, nil
	case kindFloat:
		return widen(math.Float32frombits(binary.LittleEndian.Uint32(data))), nil
	case kindDouble:
		return math.Float64frombits(binary.LittleEndian.Uint64(data)), nil
	case kindDecimal:
		return replicator.Number(appendDecimal(nil, data, c.precision, c.fraction)), nil
	case kindText:
		b, err := c.stored(data)
		if err != nil {
			return nil, err
		}
		return c.charset.text(b), nil
	case kindBytes:
		b, err := c.stored(data)
		if err != nil {
			return nil, err
		}
		return padded(b, c.pad), nil
	case kindEnum:
		return c.enum(littleEndian(data))
	case kindSet:
		return c.set(littleEndian(data))
	case kindJSON:
		text, err := jsonText(data)
		return replicator.RawJSON(text), err
	case kindUUID, kindInet4, kindInet6:
		return mariaSpecial(c.kind, data)
	}
	return string(c.appendTime(nil, data)), nil
}

// stored is a text's or binary's bytes as the application wrote them.
func (c *column) stored(data []byte) ([]byte, error) {
	if c.packed {
		return unpack(data)
	}
	return data, nil
}

func unsigned(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}

// signed extends the sign of a number of width bytes.
func signed(n uint64, width int) int64 {
	shift := 64 - 8*width
	return int64(n<<shift) >> shift
}

// widen gives the float64 of the shortest decimal that is f: 1.1, where a plain conversion has 1.10000002384185791.
func widen(f float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return v
}

// padded copies b, with zero bytes up to n.
func padded(b []byte, n int) []byte {
	out := make([]byte, max(n, len(b)))
	copy(out, b)
	return out
}

// enum: 0 is what MySQL stores, as "", for a wrong member where sql_mode is not strict.
func (c *column) enum(n uint64) (any, error) {
	if n == 0 {
		return "", nil
	}
	if n > uint64(len(c.members)) {
		return nil, fmt.Errorf("ENUM member %d of %d", n, len(c.members))
	}
	return c.members[n-1], nil
}

func (c *column) set(bits uint64) (any, error) {
	var b []byte
	for i := range 64 {
		if bits>>i&1 == 0 {
			continue
		}
		if i >= len(c.members) {
			return nil, fmt.Errorf("SET member %d of %d", i+1, len(c.members))
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, c.members[i]...)
	}
	return string(b), nil
}
