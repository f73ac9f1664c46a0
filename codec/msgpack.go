package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// decodeMsgpack reads MessagePack. A str that is not UTF-8 becomes bytes, because the first version of the format has
// no other type for bytes. The only supported extension type is the timestamp, which becomes text in the form of a
// MySQL date, in UTC.
func decodeMsgpack(body []byte, w *wanted) (any, error) { return decodeAll(body, w, msgpackValue) }

func msgpackValue(r *reader, depth int) (any, error) {
	head, err := r.take(1)
	if err != nil {
		return nil, err
	}
	switch c := head[0]; {
	case c < 0x80:
		return int64(c), nil
	case c < 0x90:
		return r.dict(uint64(c&15), depth)
	case c < 0xa0:
		return r.list(uint64(c&15), depth)
	case c < 0xc0:
		return r.rawText(uint64(c & 31))
	case c >= 0xe0:
		return int64(int8(c)), nil
	case c <= 0xc3:
		return msgpackConstant(c)
	case c >= 0xd4 && c <= 0xd8: // fixext 1 to 16: extensions of a fixed size
		return r.extension(1 << (c - 0xd4))
	case c >= 0xca && c <= 0xd3:
		return r.msgpackNumber(c)
	default:
		return r.sized(c, depth)
	}
}

func msgpackConstant(c byte) (any, error) {
	switch c {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return c == 0xc3, nil
	}
	return nil, errors.New("0xc1 does not begin a value")
}

func (r *reader) msgpackNumber(c byte) (any, error) {
	if c == 0xca || c == 0xcb {
		return r.float(4 << (c - 0xca))
	}
	size := 1 << ((c - 0xcc) & 3)
	n, err := r.uint(size)
	if c >= 0xd0 {
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, err
	}
	return unsigned(n), err
}

// sized reads a length, and then a value of this length. The first byte, c, was already read. It gives the value's type
// and says whether the length takes 1, 2 or 4 bytes.
func (r *reader) sized(c byte, depth int) (any, error) {
	// array 16 is 0xdc and array 32 is 0xdd. There is no array 8, which would come before them.
	first := byte(0xdc - 1)
	switch {
	case c <= 0xc6:
		first = 0xc4 // bin 8, bin 16, bin 32
	case c <= 0xc9:
		first = 0xc7 // ext 8, ext 16, ext 32
	case c <= 0xdb:
		first = 0xd9 // str 8, str 16, str 32
	case c >= 0xde:
		first = 0xde - 1 // map 16, map 32; there is no map 8
	}
	n, err := r.uint(1 << (c - first))
	if err != nil {
		return nil, err
	}
	switch first {
	case 0xc4:
		return r.bytes(n)
	case 0xc7:
		return r.extension(n)
	case 0xd9:
		return r.rawText(n)
	case 0xde - 1:
		return r.dict(n, depth)
	}
	return r.list(n, depth)
}

func (r *reader) rawText(n uint64) (any, error) {
	b, err := r.take(n)
	isText := utf8.Valid(b)
	if r.skips {
		b = nil
	}
	if isText {
		return string(b), err
	}
	return append([]byte{}, b...), err
}

func (r *reader) float(size int) (any, error) {
	n, err := r.uint(size)
	if err != nil {
		return nil, err
	}
	if size == 4 {
		return finite(float64(math.Float32frombits(uint32(n)))), nil
	}
	return finite(math.Float64frombits(n)), nil
}

// dateForm is the form in which a timestamp becomes text. MySQL and Elasticsearch both read it as UTC.
const dateForm = "2006-01-02T15:04:05.999999999"

func (r *reader) extension(n uint64) (any, error) {
	kind, err := r.take(1)
	if err != nil {
		return nil, err
	}
	b, err := r.take(n)
	if err != nil {
		return nil, err
	}
	var seconds int64
	var nanos uint32
	switch {
	case kind[0] != 0xff:
		return nil, fmt.Errorf("unknown extension type %d", int8(kind[0]))
	case n == 4:
		seconds = int64(binary.BigEndian.Uint32(b))
	case n == 8:
		v := binary.BigEndian.Uint64(b)
		seconds, nanos = int64(v&(1<<34-1)), uint32(v>>34)
	case n == 12:
		nanos, seconds = binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:]))
	default:
		return nil, errors.New("a timestamp has an invalid size")
	}
	if at := time.Unix(seconds, int64(nanos)).UTC(); nanos < 1e9 && at.Year() >= 0 && at.Year() <= 9999 {
		return at.Format(dateForm), nil
	}
	return nil, errors.New("a timestamp is out of range")
}
