package binlog

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
	"replicator/internal/remedy"
)

// Kind says how a column's values are stored in a row image, and which Go values they become. canal/text.go converts
// the results of a SELECT by the same table:
//
//	column                          value
//	TINYINT … BIGINT, YEAR, BIT     int64; uint64 above the largest int64
//	DECIMAL                         Number: the server's digits, without ZEROFILL's zeroes
//	FLOAT                           float64 of the shortest decimal that is that FLOAT
//	DOUBLE                          float64, for DOUBLE(M,D) rounded to D digits
//	DATE, DATETIME, TIMESTAMP, TIME string in the server's form, fractions to the column's digits, TIMESTAMP in UTC
//	CHAR, VARCHAR, TEXT, ENUM, SET  string in UTF-8
//	BINARY, VARBINARY, BLOB,        []byte, BINARY padded to its length
//	GEOMETRY, VECTOR                []byte as the server stores it
//	JSON (MySQL)                    RawJSON as the server prints it; MariaDB's is text
//	UUID, INET4, INET6 (MariaDB)    string as the server prints it
type Kind uint8

const (
	KindInt Kind = iota + 1
	KindFloat
	KindDouble
	KindRounded // DOUBLE(M,D), for which the binlog has more digits than the server shows
	KindDecimal
	KindBit
	KindYear
	KindDate
	KindTimeOld
	KindTime
	KindDatetimeOld
	KindDatetime
	KindTimestampOld
	KindTimestamp
	KindText
	KindBytes
	KindEnum
	KindSet
	KindJSON
	KindUUID
	KindInet4
	KindInet6
)

// Column is one column of a row image.
type Column struct {
	Name string
	Kind Kind

	Width  int // length of every value in bytes; 0: a length of Prefix bytes comes before each value
	Prefix int

	Unsigned  bool
	precision int
	fraction  int // digits after the point of a DECIMAL; fractional digits of a time
	Pad       int // n of a BINARY(n): the binlog omits trailing zero bytes
	Charset   *charset
	Packed    bool // a COMPRESSED column of MariaDB
	members   []string
	raw       [][]byte // ENUM or SET members in the column's character set, which Learn decodes
	Problem   error    // nil if the column can be decoded; an error only matters if a view needs the column
}

// NewColumn makes the Column for column i of a table map. declared is the column's current entry in information_schema,
// for what the binlog lacks; it may be nil.
func NewColumn(m *TableMap, i int, declared *Declared, charsets Charsets) (Column, error) {
	c := Column{}
	t, meta := m.Types[i], int(m.metas[i])
	if t == mysql.MYSQL_TYPE_STRING {
		t, meta = splitString(meta)
	}
	if declared != nil {
		c.Name = declared.Name
	}
	if m.Names != nil {
		c.Name = string(m.Names[i])
	}
	if err := c.measure(t, meta); err != nil {
		return c, err
	}
	if err := c.measureOld(declared); err != nil {
		return c, err
	}
	if c.Width == 0 && (c.Prefix < 1 || c.Prefix > 4) || c.Width > 65 || c.fraction > 30 {
		return c, fmt.Errorf("column %s: type %d can't have metadata %d", c.Name, t, m.metas[i])
	}
	c.describe(m, i, declared, charsets)
	return c, nil
}

var fixedTypes = map[byte]Column{
	mysql.MYSQL_TYPE_TINY:      {Kind: KindInt, Width: 1},
	mysql.MYSQL_TYPE_SHORT:     {Kind: KindInt, Width: 2},
	mysql.MYSQL_TYPE_INT24:     {Kind: KindInt, Width: 3},
	mysql.MYSQL_TYPE_LONG:      {Kind: KindInt, Width: 4},
	mysql.MYSQL_TYPE_LONGLONG:  {Kind: KindInt, Width: 8},
	mysql.MYSQL_TYPE_FLOAT:     {Kind: KindFloat, Width: 4},
	mysql.MYSQL_TYPE_DOUBLE:    {Kind: KindDouble, Width: 8},
	mysql.MYSQL_TYPE_YEAR:      {Kind: KindYear, Width: 1},
	mysql.MYSQL_TYPE_DATE:      {Kind: KindDate, Width: 3},
	mysql.MYSQL_TYPE_NEWDATE:   {Kind: KindDate, Width: 3},
	mysql.MYSQL_TYPE_TIME:      {Kind: KindTimeOld, Width: 3},
	mysql.MYSQL_TYPE_DATETIME:  {Kind: KindDatetimeOld, Width: 8},
	mysql.MYSQL_TYPE_TIMESTAMP: {Kind: KindTimestampOld, Width: 4},
}

func (c *Column) measure(t byte, meta int) error {
	if fixed, ok := fixedTypes[t]; ok {
		c.Kind, c.Width = fixed.Kind, fixed.Width
		return nil
	}
	switch t {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		c.Kind, c.precision, c.fraction = KindDecimal, meta>>8, meta&0xff
		c.Width = decimalSize(c.precision, c.fraction)
		if c.Width <= 0 {
			return fmt.Errorf("column %s: invalid type DECIMAL(%d,%d)", c.Name, c.precision, c.fraction)
		}
	case mysql.MYSQL_TYPE_BIT:
		bits := meta>>8*8 + meta&0xff
		c.Kind, c.Width = KindBit, (bits+7)/8
	case mysql.MYSQL_TYPE_TIME2:
		c.Kind, c.fraction, c.Width = KindTime, meta, 3+(meta+1)/2
	case mysql.MYSQL_TYPE_DATETIME2:
		c.Kind, c.fraction, c.Width = KindDatetime, meta, 5+(meta+1)/2
	case mysql.MYSQL_TYPE_TIMESTAMP2:
		c.Kind, c.fraction, c.Width = KindTimestamp, meta, 4+(meta+1)/2
	case mysql.MYSQL_TYPE_ENUM:
		c.Kind, c.Width = KindEnum, meta&0xff
	case mysql.MYSQL_TYPE_SET:
		c.Kind, c.Width = KindSet, meta&0xff
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, TypeVarcharCompressed:
		c.Kind, c.Prefix, c.Packed = KindText, 1, t == TypeVarcharCompressed
		if meta > 255 {
			c.Prefix = 2
		}
		if t == mysql.MYSQL_TYPE_STRING {
			c.Pad = meta
		}
	case mysql.MYSQL_TYPE_BLOB, TypeBlobCompressed:
		c.Kind, c.Prefix, c.Packed = KindText, meta, t == TypeBlobCompressed
	case mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		c.Kind, c.Prefix = KindBytes, meta
	case mysql.MYSQL_TYPE_JSON:
		c.Kind, c.Prefix = KindJSON, meta
	default:
		return fmt.Errorf("column %s has the unknown type %d", c.Name, t)
	}
	return nil
}

// setFull is the remedy for an error about what the binlog lacks.
const setFull = ". Set binlog_row_metadata=FULL on the source. Then `replicator rebuild " + remedy.Views + "` fills " +
	"the table's views again"

// describe sets properties that affect values but not their length.
func (c *Column) describe(m *TableMap, i int, declared *Declared, charsets Charsets) {
	switch c.Kind {
	case KindDouble:
		if declared != nil && declared.Rounded {
			c.Kind, c.fraction = KindRounded, declared.Digits
		}
	case KindInt:
		switch {
		case m.signs:
			c.Unsigned = m.unsigned[i]
		case declared != nil:
			c.Unsigned = declared.Unsigned
		default:
			c.Problem = errors.New("the binlog doesn't say whether the column is UNSIGNED" + setFull)
		}
	case KindEnum, KindSet:
		switch {
		case m.hasMembers:
			c.raw = m.members[i]
			if m.charsets {
				c.Charset, _ = charsets.byID(m.collations[i])
			}
		case declared != nil && declared.Members != nil:
			c.members = declared.Members
		default:
			c.Problem = errors.New("the binlog doesn't name the members of the ENUM or SET" + setFull)
		}
	case KindText:
		if declared != nil && declared.Special != 0 && c.Pad > 0 {
			c.Kind = declared.Special
			return
		}
		var known bool
		switch {
		case m.charsets:
			c.Charset, known = charsets.byID(m.collations[i])
		case declared != nil:
			c.Charset, known = charsets.byName(declared.Charset)
		}
		switch {
		case !known && m.charsets:
			c.Problem = fmt.Errorf("the column's collation %d is unknown", m.collations[i])
		case !known:
			c.Problem = errors.New("the binlog doesn't name the column's character set" + setFull)
		case c.Charset == nil:
			c.Kind = KindBytes
		}
		if c.Kind == KindText {
			c.Pad = 0
		}
	}
}

// Learn asks the server for the character set tables that decoding the column needs. It must be called before Value.
func (c *Column) Learn(ctx context.Context, charsets Charsets) error {
	if err := charsets.learn(ctx, c.Charset); err != nil {
		return err
	}
	for _, b := range c.raw {
		c.members = append(c.members, c.Charset.text(b))
	}
	c.raw = nil
	return nil
}

// Size returns the length in bytes of the value at the beginning of data, including its length prefix; negative if data
// is too short.
func (c *Column) Size(data []byte) int {
	n := c.Width
	if n == 0 {
		if len(data) < c.Prefix {
			return -1
		}
		switch c.Prefix {
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

var errPacked = errors.New("the COMPRESSED value is damaged")

// unpack decompresses a value of a COMPRESSED column (Field_longstr::uncompress in MariaDB): a byte with the method,
// the length, and a zlib or raw deflate stream. An empty value has no such bytes.
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
	size := BigEndian(data[1 : 1+n])
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

// Year decodes a YEAR. The binlog has the years since 1900, and 0 for the year 0000.
func Year(data []byte) int64 {
	if data[0] == 0 {
		return 0
	}
	return 1900 + int64(data[0])
}

// Value decodes one value, given without its length prefix. The result doesn't share data's memory.
func (c *Column) Value(data []byte) (any, error) {
	if c.Problem != nil {
		return nil, c.Problem
	}
	switch c.Kind {
	case KindInt:
		if c.Unsigned {
			return Unsigned(LittleEndian(data)), nil
		}
		return Signed(LittleEndian(data), c.Width), nil
	case KindBit:
		return Unsigned(BigEndian(data)), nil
	case KindYear:
		return Year(data), nil
	case KindFloat:
		return Widen(math.Float32frombits(binary.LittleEndian.Uint32(data))), nil
	case KindDouble:
		return math.Float64frombits(binary.LittleEndian.Uint64(data)), nil
	case KindRounded:
		return rounded(math.Float64frombits(binary.LittleEndian.Uint64(data)), c.fraction)
	case KindDecimal:
		return replicator.Number(appendDecimal(nil, data, c.precision, c.fraction)), nil
	case KindText:
		b, err := c.Stored(data)
		if err != nil {
			return nil, err
		}
		return c.Charset.text(b), nil
	case KindBytes:
		b, err := c.Stored(data)
		if err != nil {
			return nil, err
		}
		return Padded(b, c.Pad), nil
	case KindEnum:
		return c.enum(LittleEndian(data))
	case KindSet:
		return c.set(LittleEndian(data))
	case KindJSON:
		text, err := JSONText(data)
		return replicator.RawJSON(text), err
	case KindUUID, KindInet4, KindInet6:
		return mariaSpecial(c.Kind, data)
	}
	return c.timeText(data)
}

// Stored returns the bytes of a text or binary value as the column stores them, decompressed.
func (c *Column) Stored(data []byte) ([]byte, error) {
	if c.Packed {
		return unpack(data)
	}
	return data, nil
}

func Unsigned(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}

// Signed extends the sign of a number of width bytes.
func Signed(n uint64, width int) int64 {
	shift := 64 - 8*width
	return int64(n<<shift) >> shift
}

// Widen returns the float64 with the shortest decimal that identifies f: 1.1, where a conversion gives
// 1.10000002384185791.
func Widen(f float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return v
}

// rounded returns a DOUBLE(M,D) as the server shows it, with D digits after the point. The stored number has more
// digits: the server's own rounding turns -0.10 into -0.09999999999999998.
func rounded(f float64, digits int) (float64, error) {
	return strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
}

// Padded returns a copy of b with zero bytes added up to length n.
func Padded(b []byte, n int) []byte {
	out := make([]byte, max(n, len(b)))
	copy(out, b)
	return out
}

// enum converts the number of an ENUM member to its text. Without strict sql_mode, MySQL stores 0 for an invalid
// member, and shows it as "".
func (c *Column) enum(n uint64) (any, error) {
	if n == 0 {
		return "", nil
	}
	if n > uint64(len(c.members)) {
		return nil, fmt.Errorf("invalid ENUM member %d: the column has %d", n, len(c.members))
	}
	return c.members[n-1], nil
}

func (c *Column) set(bits uint64) (any, error) {
	var b []byte
	for i := range 64 {
		if bits>>i&1 == 0 {
			continue
		}
		if i >= len(c.members) {
			return nil, fmt.Errorf("invalid SET member %d: the column has %d", i+1, len(c.members))
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, c.members[i]...)
	}
	return string(b), nil
}
