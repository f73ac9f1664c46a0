package changelog

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/jsonscan"
)

// Encode makes the Kafka record of r, without topic and partition.
func Encode(r *Record) *kgo.Record { return EncodeKeyed(KeyOf(r.Cell), r) }

// EncodeKeyed is Encode for a caller that already has the key of r.Cell. The record refers to key, which must not
// change later.
func EncodeKeyed(key []byte, r *Record) *kgo.Record {
	out := &kgo.Record{Key: key, Headers: headers(r)}
	if r.Row == nil && r.Dead == "" {
		return out // a tombstone: a compacted topic may eventually drop it
	}
	b := make([]byte, 0, 160+size(r))
	b = append(b, `{"op":"`...)
	b = append(b, op(r)...)
	b = append(b, `","version":`...)
	b = strconv.AppendInt(b, r.State.Version, 10)
	b = append(b, `,"order":`...)
	b = strconv.AppendInt(b, r.State.Order, 10)
	if r.State.AsOf != 0 {
		b = append(b, `,"as_of":`...)
		b = strconv.AppendInt(b, r.State.AsOf, 10)
	}
	if r.Dead != "" {
		b = append(b, `,"dead":`...)
		b = replicator.AppendJSONText(b, r.Dead)
	} else {
		b = appendRow(b, r)
	}
	out.Value = append(b, '}')
	return out
}

func op(r *Record) string {
	if r.Reset() {
		return opReset
	}
	return opPut
}

func headers(r *Record) []kgo.RecordHeader {
	what := op(r)
	switch {
	case r.Dead != "":
		what = opDead
	case r.Row == nil:
		what = opGone
	}
	all := make([]byte, 0, 64+len(r.Source))
	next := func(grown []byte) []byte {
		value := grown[len(all):len(grown):len(grown)]
		all = grown
		return value
	}
	return []kgo.RecordHeader{
		{Key: headerOp, Value: next(append(all, what...))},
		{Key: headerVersion, Value: next(strconv.AppendInt(all, r.State.Version, 10))},
		{Key: headerOrder, Value: next(strconv.AppendInt(all, r.State.Order, 10))},
		{Key: headerAsOf, Value: next(strconv.AppendInt(all, r.State.AsOf, 10))},
		{Key: headerSource, Value: next(append(all, r.Source...))},
	}
}

func size(r *Record) int {
	if r.Row == nil {
		return len(r.Dead)
	}
	n := len(r.Row.Body) + 48*len(r.Row.Names)
	if r.Codec != "json" { // the body is written twice: decoded, and in base64
		n += 2 * len(r.Row.Body)
	}
	return n
}

func appendRow(b []byte, r *Record) []byte {
	row := r.Row
	if !row.Time.IsZero() {
		b = append(b, `,"time":"`...)
		b = row.Time.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if row.ColumnAs != "" {
		b = append(b, `,"column_as":`...)
		b = appendText(b, row.ColumnAs)
	}
	if len(row.Names) > 0 {
		b = append(b, `,"columns":{`...)
		for i, name := range row.Names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(replicator.AppendJSONText(b, name), ':')
			b = appendValue(b, row.Columns[i])
		}
		b = append(b, '}')
	}
	if row.Body == nil {
		return b
	}
	if r.Codec == "json" && jsonscan.Valid(row.Body) {
		return append(append(b, `,"body":`...), row.Body...)
	}
	if r.Body != nil {
		b = append(b, `,"body":`...)
		b = replicator.AppendJSON(b, r.Body)
	}
	b = append(b, `,"codec":`...)
	b = replicator.AppendJSONText(b, r.Codec)
	b = append(b, `,"raw":"`...)
	b = base64.StdEncoding.AppendEncode(b, row.Body)
	return append(b, '"')
}

// KeyOf returns the key of a cell's records.
func KeyOf(cell replicator.Cell) []byte { return AppendKey(make([]byte, 0, 96), cell) }

// AppendKey appends the key of a cell's records. The key is canonical and without spaces, so equal cells have equal
// keys.
func AppendKey(b []byte, cell replicator.Cell) []byte {
	b = append(b, `{"table":`...)
	b = replicator.AppendJSONText(b, cell.Table)
	b = appendKeyValues(append(b, `,"key":`...), cell.Key)
	if cell.Column != "" {
		b = append(b, `,"column":`...)
		b = appendText(b, cell.Column)
	}
	return append(b, '}')
}

func appendKeyValues(b []byte, key replicator.Key) []byte {
	b = append(b, '[')
	var few [4]any
	values, err := key.AppendValues(few[:0])
	if err != nil { // only if MakeKey did not make the key
		values = []any{[]byte(key)}
	}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, v)
	}
	return append(b, ']')
}

// A value that JSON can't express is encoded as an object with one of these members. Each is for one type of value.
const (
	tagBytes   = "base64"  // []byte
	tagText    = "text64"  // string that is not UTF-8
	tagDecimal = "decimal" // replicator.Number, an exact decimal number
	tagJSON    = "json"    // replicator.RawJSON
	tagBadJSON = "json64"  // replicator.RawJSON that is not valid JSON
)

// appendValue appends the value of a column or a key as JSON. A float64 always gets a point or an exponent, which tells
// it from an integer when it is decoded.
func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendText(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case []byte:
		return appendBase64(b, tagBytes, v)
	case replicator.Number:
		return append(replicator.AppendJSONText(append(b, `{"decimal":`...), string(v)), '}')
	case replicator.RawJSON:
		if !jsonscan.Valid(v) {
			return appendBase64(b, tagBadJSON, v)
		}
		return append(append(append(b, `{"json":`...), v...), '}')
	case float64:
		from := len(b)
		b = replicator.AppendJSON(b, v)
		for _, c := range b[from:] {
			if c == '.' || c == 'e' || c == 'n' {
				return b
			}
		}
		return append(b, ".0"...)
	}
	return replicator.AppendJSON(b, value)
}

func appendText(b []byte, text string) []byte {
	if !utf8.ValidString(text) {
		return appendBase64(b, tagText, []byte(text))
	}
	return replicator.AppendJSONText(b, text)
}

func appendBase64(b []byte, tag string, data []byte) []byte {
	b = append(append(append(b, `{"`...), tag...), `":"`...)
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, `"}`...)
}
