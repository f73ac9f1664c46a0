package binlog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// MySQL's binary JSON (sql-common/json_binary.h) is a type byte, then the value. Objects and arrays consist of their
// count and size, entries for their keys and values, and the data that the entries point to.
const (
	jsonSmallObject = iota
	jsonLargeObject
	jsonSmallArray
	jsonLargeArray
	jsonLiteral
	jsonInt16
	jsonUint16
	jsonInt32
	jsonUint32
	jsonInt64
	jsonUint64
	jsonDouble
	jsonString
	jsonOpaque = 15
)

// maxJSONDepth is one more than MySQL's own limit of nesting.
const maxJSONDepth = 101

var errJSON = errors.New("the binary JSON is damaged")

// JSONText renders MySQL's binary JSON exactly as SELECT returns it. So numbers keep their digits and their kind (1.0
// stays 1.0), and keys keep their order.
func JSONText(data []byte) ([]byte, error) {
	if len(data) == 0 { // stored by INSERT IGNORE of NULL into a NOT NULL column; the server prints it as null
		return []byte("null"), nil
	}
	r := jsonRenderer{out: make([]byte, 0, len(data)*5/4+16), budget: len(data)*64 + 1024}
	if err := r.value(data[0], data[1:], 0); err != nil {
		return nil, err
	}
	return r.out, nil
}

// jsonRenderer appends JSON text to out. budget limits how many values it visits, because in damaged data many entries
// may point to one another.
type jsonRenderer struct {
	out    []byte
	budget int
}

func (r *jsonRenderer) value(t byte, data []byte, depth int) error {
	if r.budget--; r.budget < 0 || depth > maxJSONDepth {
		return errJSON
	}
	need := func(n int) bool { return len(data) >= n }
	switch {
	case t <= jsonLargeArray:
		return r.container(t, data, depth)
	case t == jsonLiteral && need(1):
		return r.literal(data[0])
	case t == jsonInt16 && need(2):
		r.out = strconv.AppendInt(r.out, int64(int16(binary.LittleEndian.Uint16(data))), 10)
	case t == jsonUint16 && need(2):
		r.out = strconv.AppendUint(r.out, uint64(binary.LittleEndian.Uint16(data)), 10)
	case t == jsonInt32 && need(4):
		r.out = strconv.AppendInt(r.out, int64(int32(binary.LittleEndian.Uint32(data))), 10)
	case t == jsonUint32 && need(4):
		r.out = strconv.AppendUint(r.out, uint64(binary.LittleEndian.Uint32(data)), 10)
	case t == jsonInt64 && need(8):
		r.out = strconv.AppendInt(r.out, int64(binary.LittleEndian.Uint64(data)), 10)
	case t == jsonUint64 && need(8):
		r.out = strconv.AppendUint(r.out, binary.LittleEndian.Uint64(data), 10)
	case t == jsonDouble && need(8):
		f := math.Float64frombits(binary.LittleEndian.Uint64(data))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return errJSON
		}
		r.out = appendJSONDouble(r.out, f)
	case t == jsonString:
		s, err := jsonBytes(data)
		if err != nil {
			return err
		}
		r.out = appendQuoted(r.out, s)
	case t == jsonOpaque && need(1):
		s, err := jsonBytes(data[1:])
		if err != nil {
			return err
		}
		return r.opaque(data[0], s)
	default:
		return errJSON
	}
	return nil
}

func (r *jsonRenderer) literal(b byte) error {
	switch b {
	case 0:
		r.out = append(r.out, "null"...)
	case 1:
		r.out = append(r.out, "true"...)
	case 2:
		r.out = append(r.out, "false"...)
	default:
		return errJSON
	}
	return nil
}

func (r *jsonRenderer) container(t byte, data []byte, depth int) error {
	width := 2
	if t == jsonLargeObject || t == jsonLargeArray {
		width = 4
	}
	isObject := t <= jsonLargeObject
	if len(data) < 2*width {
		return errJSON
	}
	count, size := int(LittleEndian(data[:width])), int(LittleEndian(data[width:2*width]))
	if size > len(data) {
		return errJSON
	}
	data = data[:size]
	keys, values := 2*width, 2*width
	if isObject {
		values += count * (width + 2)
	}
	if count > size || values+count*(width+1) > size {
		return errJSON
	}
	open, shut := byte('['), byte(']')
	if isObject {
		open, shut = '{', '}'
	}
	r.out = append(r.out, open)
	for i := range count {
		if i > 0 {
			r.out = append(r.out, ", "...)
		}
		if isObject {
			e := data[keys+i*(width+2):]
			at, n := int(LittleEndian(e[:width])), int(binary.LittleEndian.Uint16(e[width:]))
			if at > size || n > size-at {
				return errJSON
			}
			r.out = append(appendQuoted(r.out, data[at:at+n]), ": "...)
		}
		if err := r.entry(data, data[values+i*(width+1):], width, depth); err != nil {
			return err
		}
	}
	r.out = append(r.out, shut)
	return nil
}

// entry renders the value of e, an entry of an array or object (container). A small value is in e itself; for others, e
// has the offset in container.
func (r *jsonRenderer) entry(container, e []byte, width, depth int) error {
	t := e[0]
	if t == jsonLiteral || t == jsonInt16 || t == jsonUint16 || width == 4 && (t == jsonInt32 || t == jsonUint32) {
		return r.value(t, e[1:1+width], depth+1)
	}
	at := int(LittleEndian(e[1 : 1+width]))
	if at > len(container) {
		return errJSON
	}
	return r.value(t, container[at:], depth+1)
}

// jsonBytes reads bytes preceded by their length, which has seven bits in each byte.
func jsonBytes(data []byte) ([]byte, error) {
	n := 0
	for i := range min(len(data), 5) {
		n |= int(data[i]&0x7f) << (7 * i)
		if data[i]&0x80 == 0 {
			if n > len(data)-i-1 {
				return nil, errJSON
			}
			return data[i+1 : i+1+n], nil
		}
	}
	return nil, errJSON
}

// opaque renders a value that JSON has no type for: a DECIMAL as a number, a time as a string, anything else as base64.
func (r *jsonRenderer) opaque(t byte, data []byte) error {
	switch t {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		if len(data) < 2 {
			return errJSON
		}
		precision, scale := int(data[0]), int(data[1])
		if n := decimalSize(precision, scale); n < 0 || len(data) < 2+n {
			return errJSON
		}
		r.out = appendDecimal(r.out, data[2:2+decimalSize(precision, scale)], precision, scale)
		return nil
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME:
		if len(data) < 8 {
			return errJSON
		}
		n := int64(binary.LittleEndian.Uint64(data))
		negative := n < 0
		if negative {
			n = -n
		}
		c := datetime(n>>24, int(n&(1<<24-1)))
		r.out = append(r.out, '"')
		switch t {
		case mysql.MYSQL_TYPE_TIME:
			c.negative, c.hour = negative, int(n>>36&1023)
			r.out = appendClock(r.out, c, 6)
		case mysql.MYSQL_TYPE_DATE:
			r.out = appendDate(r.out, c)
		default:
			r.out = appendClock(append(appendDate(r.out, c), ' '), c, 6)
		}
		r.out = append(r.out, '"')
		return nil
	}
	r.out = fmt.Appendf(r.out, `"base64:type%d:`, t)
	// The server breaks base64 into lines of 76 characters.
	for len(data) > 57 {
		r.out = base64.StdEncoding.AppendEncode(r.out, data[:57])
		r.out = append(r.out, `\n`...)
		data = data[57:]
	}
	r.out = append(base64.StdEncoding.AppendEncode(r.out, data), '"')
	return nil
}

// appendJSONDouble prints a double as the server does (my_gcvt). It adds ".0" if the text would look like an integer.
func appendJSONDouble(b []byte, f float64) []byte {
	begin := len(b)
	b = appendDouble(b, f)
	for _, c := range b[begin:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, ".0"...)
}

// appendDouble prints the fewest digits that identify f. It uses an exponent if there are more than 15 digits before
// the point, or more than 14 zeros after it.
func appendDouble(b []byte, f float64) []byte {
	var buf [32]byte
	e := strconv.AppendFloat(buf[:0], f, 'e', -1, 64)
	exponent := 0
	for i, c := range e {
		if c == 'e' {
			exponent, _ = strconv.Atoi(string(e[i+1:]))
			e = e[:i]
			break
		}
	}
	if f == 0 || exponent+1 <= 15 && exponent+1 > -15 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = append(append(b, e...), 'e')
	return strconv.AppendInt(b, int64(exponent), 10)
}

// appendQuoted appends a string as the server quotes it: it escapes only where that is necessary.
func appendQuoted(b, s []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
