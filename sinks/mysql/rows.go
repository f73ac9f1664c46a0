package mysql

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// row is what an entry becomes: a value for each of the view's fields and the version, where the table has a column for
// it. Values are as they are bound: nil, int64, uint64, float64, string, []byte.
type row []any

// The kinds of values in the stored form of rows.
const (
	valueNil    = 'n'
	valueInt    = 'i'
	valueUint   = 'u'
	valueFloat  = 'f'
	valueString = 's'
	valueBytes  = 'b'
)

// appendRows appends the stored form of rows: their number, and for each the number of values and the values, each with
// its kind. It is what a digest is made of.
func appendRows(b []byte, rows []row) []byte {
	b = binary.AppendUvarint(b, uint64(len(rows)))
	for _, r := range rows {
		b = binary.AppendUvarint(b, uint64(len(r)))
		for _, v := range r {
			switch v := v.(type) {
			case nil:
				b = append(b, valueNil)
			case int64:
				b = binary.BigEndian.AppendUint64(append(b, valueInt), uint64(v))
			case uint64:
				b = binary.BigEndian.AppendUint64(append(b, valueUint), v)
			case float64:
				b = binary.BigEndian.AppendUint64(append(b, valueFloat), math.Float64bits(v))
			case string:
				b = append(binary.AppendUvarint(append(b, valueString), uint64(len(v))), v...)
			case []byte:
				b = append(binary.AppendUvarint(append(b, valueBytes), uint64(len(v))), v...)
			}
		}
	}
	return b
}

// parseRows reads the stored form.
func parseRows(b []byte) ([]row, error) {
	r := reader{b: b}
	n := r.uvarint()
	if n > uint64(len(b)) {
		return nil, errState
	}
	rows := make([]row, 0, n)
	for ; n > 0 && !r.bad; n-- {
		width := r.uvarint()
		if width > uint64(len(r.b)) {
			return nil, errState
		}
		values := make(row, 0, width)
		for ; width > 0 && !r.bad; width-- {
			v, ok := r.value()
			if !ok {
				return nil, errState
			}
			values = append(values, v)
		}
		rows = append(rows, values)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errState
	}
	return rows, nil
}

func (r *reader) value() (any, bool) {
	kind := r.bytes(1)
	if r.bad {
		return nil, false
	}
	switch kind[0] {
	case valueNil:
		return nil, true
	case valueInt:
		return int64(r.uint64()), !r.bad
	case valueUint:
		return r.uint64(), !r.bad
	case valueFloat:
		return math.Float64frombits(r.uint64()), !r.bad
	case valueString:
		return string(r.bytes(r.uvarint())), !r.bad
	case valueBytes:
		b := r.bytes(r.uvarint())
		if b == nil {
			b = []byte{} // nil would be NULL
		}
		return b, !r.bad
	}
	return nil, false
}

// digest is a short name for a contribution that whoever writes bodies can't forge: it depends on a salt that only the
// sink's own table holds. It is neither noDigest nor deadDigest.
func digest(salt salt, stored []byte) uint64 {
	h := sha256.New()
	h.Write(salt)
	h.Write(stored)
	var sum [sha256.Size]byte
	return max(binary.BigEndian.Uint64(h.Sum(sum[:0])), deadDigest+1)
}
