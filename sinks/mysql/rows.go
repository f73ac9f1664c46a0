package mysql

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"replicator/internal/wire"
)

// row is a converted entry: a value for each of the view's fields and the version, if the table has a column for it.
// Values are in bound form: nil, int64, uint64, float64, string, []byte.
type row []any

const (
	valueNil    = 'n'
	valueInt    = 'i'
	valueUint   = 'u'
	valueFloat  = 'f'
	valueString = 's'
	valueBytes  = 'b'
)

// appendRows appends the stored form of rows: their number, and for each row the number of its values and the values,
// each with its kind. Digests are hashes of this form.
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
				b = wire.AppendText(append(b, valueString), v)
			case []byte:
				b = append(binary.AppendUvarint(append(b, valueBytes), uint64(len(v))), v...)
			}
		}
	}
	return b
}

// parseRows decodes what appendRows encoded. "" means no rows.
func parseRows(stored string) ([]row, error) {
	if stored == "" {
		return nil, nil
	}
	r := wire.NewReader(stored)
	rows := make([]row, r.Count())
	for i := range rows {
		rows[i] = make(row, r.Count())
		for n := range rows[i] {
			rows[i][n] = readValue(&r)
		}
	}
	if r.Bad() || r.More() {
		return nil, errState
	}
	return rows, nil
}

func readValue(r *wire.Reader) any {
	switch r.Byte() {
	case valueNil:
	case valueInt:
		return int64(r.Uint64())
	case valueUint:
		return r.Uint64()
	case valueFloat:
		return math.Float64frombits(r.Uint64())
	case valueString:
		return r.Text()
	case valueBytes:
		return []byte(r.Text())
	default:
		r.Fail()
	}
	return nil
}

// digest returns a short hash of the view's salt and a contribution's stored form. Only the sink's own table holds the
// salt, so the authors of bodies can't forge a digest. The result is never one of the reserved digests.
func digest(salted []byte) uint64 {
	sum := sha256.Sum256(salted)
	return max(binary.BigEndian.Uint64(sum[:]), waitingDigest+1)
}
