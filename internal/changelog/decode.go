package changelog

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/jsonscan"
)

// Decoder decodes records. A record often has the same table, column and column names as the previous one. The decoded
// records then share these strings. A Decoder is not safe for concurrent use.
type Decoder struct {
	table, column string
	names         []string
	key           []byte
}

// Decode reads a Kafka record that Encode made. The error wraps ErrNotOurs if the record's form differs, and shows
// none of its content.
func Decode(in *kgo.Record) (*Record, error) { return new(Decoder).Decode(in) }

// Decode reads a Kafka record that Encode made. Records from one decoder share the names of tables and columns.
func (d *Decoder) Decode(in *kgo.Record) (*Record, error) {
	r := &Record{Source: SourceOf(in)}
	var err error
	if r.Cell, err = d.decodeKey(in.Key); err != nil {
		return nil, err
	}
	var what string
	if what, r.State, err = decodeHeaders(in); err != nil {
		return nil, err
	}
	switch {
	case what == opGone:
		if in.Value != nil {
			return nil, notOurs("its header op says that the cell is gone, but it has a value")
		}
		return r, nil
	case what != opDead && what != op(r):
		return nil, notOurs("its header op is %.20q, which its other headers contradict", what)
	}
	if err := d.decodeRow(r, in.Value); err != nil {
		return nil, err
	}
	if (what == opDead) != (r.Dead != "") {
		return nil, notOurs("only one of its value and its header op says that the cell is dead")
	}
	return r, nil
}

// DecodeEntry decodes the record whose content a Table holds in an entry. The returned record has no Source.
func DecodeEntry(key []byte, e Entry) (*Record, error) {
	r := &Record{State: e.State}
	var d Decoder
	var err error
	if r.Cell, err = d.decodeKey(key); err != nil || e.Value == nil {
		return r, err
	}
	return r, d.decodeRow(r, e.Value)
}

// CellOf returns the cell that a record's key names.
func CellOf(key []byte) (replicator.Cell, error) { return new(Decoder).decodeKey(key) }

func decodeHeaders(in *kgo.Record) (what string, s replicator.State, err error) {
	number := func(text []byte) (n int64) {
		if err == nil {
			if n, err = strconv.ParseInt(string(text), 10, 64); err != nil {
				err = notOurs("a header is not a number")
			}
		}
		return n
	}
	const all = 4
	seen := 0
	for _, h := range in.Headers {
		switch h.Key {
		case headerOp:
			switch string(h.Value) {
			case opPut: // most records have this header; using the constant avoids a copy of its bytes
				what = opPut
			default:
				what = string(h.Value)
			}
		case headerVersion:
			s.Version = number(h.Value)
		case headerOrder:
			s.Order = number(h.Value)
		case headerAsOf:
			s.AsOf = number(h.Value)
		default:
			continue
		}
		seen++
	}
	switch {
	case err != nil:
	case seen != all:
		err = notOurs("it must have the headers op, version, order and as_of, once each")
	case what != opPut && what != opReset && what != opGone && what != opDead:
		err = notOurs("its header op is %.20q, which is unknown", what)
	case s.Version < replicator.NoVersion || s.Order < 0 || s.AsOf < 0 || s.AsOf > s.Order:
		err = notOurs("its headers have numbers that no cell can have")
	}
	return what, s, err
}

func (d *Decoder) decodeKey(key []byte) (c replicator.Cell, err error) {
	var few [4]any
	values := few[:0]
	value := func(text []byte) error {
		v, err := decodeValue(text)
		values = append(values, v)
		return err
	}
	err = jsonscan.Members(key, func(name, text []byte) error {
		switch string(name) {
		case "table":
			c.Table, err = shareText(&d.table, text)
		case "key":
			err = jsonscan.Elements(text, value)
		case "column":
			if text[0] == '"' {
				c.Column, err = shareText(&d.column, text)
				break
			}
			var column any
			column, err = decodeValue(text)
			c.Column, _ = column.(string)
		}
		return err
	})
	if err != nil {
		return replicator.Cell{}, notOurs(`its key is not of the form {"table":…,"key":[…]}`)
	}
	if c.Key, err = replicator.MakeKey(values...); err != nil {
		return replicator.Cell{}, notOurs("its key has a value that can't be part of a key")
	}
	if d.key = AppendKey(d.key[:0], c); !bytes.Equal(d.key, key) {
		return replicator.Cell{}, notOurs("its key is not in canonical form, so compaction would not find it")
	}
	return c, nil
}

// shareText decodes a JSON string and stores it in `last`. If `last` already contains an equal string, shareText
// returns that one, so that records share its memory.
func shareText(last *string, text []byte) (string, error) {
	decoded, err := jsonscan.Bytes(text)
	if string(decoded) != *last {
		*last = string(decoded)
	}
	return *last, err
}

// stored is the decoded JSON value of a record. Its byte slices share the record's memory.
type stored struct {
	decoder   *Decoder
	state     replicator.State
	dead      string
	row       *replicator.Row
	codec     string
	body, raw []byte
}

func (d *Decoder) decodeRow(r *Record, value []byte) error {
	v := stored{decoder: d, row: &replicator.Row{Cell: r.Cell, Version: r.State.Version, Order: r.State.Order}}
	if err := jsonscan.Members(value, v.member); err != nil {
		return notOurs("its value is not JSON of the expected form")
	}
	if v.state != r.State {
		return notOurs("its value and its headers describe different states")
	}
	if r.Dead = v.dead; r.Dead != "" {
		return nil
	}
	switch {
	case v.raw != nil:
		v.row.Body, r.Codec = v.raw, v.codec
	case v.codec != "":
		return notOurs("it names a codec but has no raw body")
	case v.body != nil: // a copy, because body (unlike raw) shares memory with all records of a fetch
		v.row.Body, r.Codec = bytes.Clone(v.body), "json"
	}
	r.Row = v.row
	return nil
}

// column adds a column. Columns must keep their order, because it is part of the row.
func (v *stored) column(name, text []byte) error {
	value, err := decodeValue(text)
	n, names := len(v.row.Columns), v.decoder.names
	if n >= len(names) || names[n] != string(name) {
		names = append(names[:n:n], string(name)) // a copy, because earlier rows share the list
		v.decoder.names = names
	}
	if v.row.Columns == nil {
		v.row.Columns = make([]any, 0, len(names))
	}
	v.row.Names, v.row.Columns = names[:n+1:n+1], append(v.row.Columns, value)
	return err
}

func (v *stored) member(name, text []byte) (err error) {
	switch string(name) {
	case "version":
		v.state.Version, err = strconv.ParseInt(string(text), 10, 64)
	case "order":
		v.state.Order, err = strconv.ParseInt(string(text), 10, 64)
	case "as_of":
		v.state.AsOf, err = strconv.ParseInt(string(text), 10, 64)
	case "dead":
		v.dead, err = jsonscan.String(text)
	case "time":
		err = v.row.Time.UnmarshalJSON(text)
	case "column_as":
		var as any
		as, err = decodeValue(text)
		v.row.ColumnAs, _ = as.(string)
	case "columns":
		err = jsonscan.Members(text, v.column)
	case "body":
		v.body = text
	case "codec":
		v.codec, err = jsonscan.String(text)
	case "raw":
		v.raw, err = decodeBase64(text)
	}
	return err
}

func decodeValue(text []byte) (any, error) {
	switch c := text[0]; {
	case c == 'n':
		return nil, nil
	case c == 't' || c == 'f':
		return c == 't', nil
	case c == '"':
		return jsonscan.String(text)
	case c == '{':
		return decodeTagged(text)
	case c == '-' || '0' <= c && c <= '9':
		return decodeNumber(string(text))
	}
	return nil, notOurs("a value is a list")
}

func decodeNumber(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, notOurs("a number is out of range")
		}
		return f, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, notOurs("an integer is out of range")
	}
	return u, nil
}

func decodeTagged(text []byte) (value any, err error) {
	members := 0
	err = jsonscan.Members(text, func(tag, text []byte) error {
		members++
		var data []byte
		switch string(tag) {
		case tagJSON:
			value = replicator.RawJSON(bytes.Clone(text))
		case tagDecimal:
			var digits string
			digits, err = jsonscan.String(text)
			value = replicator.Number(digits)
		case tagBytes:
			data, err = decodeBase64(text)
			value = data
		case tagText:
			data, err = decodeBase64(text)
			value = string(data)
		case tagBadJSON:
			data, err = decodeBase64(text)
			value = replicator.RawJSON(data)
		default:
			members++
		}
		return err
	})
	if err != nil || members != 1 {
		return nil, notOurs("a value is an object of another form")
	}
	return value, nil
}

// decodeBase64 reads a string of base64. The result is never nil.
func decodeBase64(text []byte) ([]byte, error) {
	encoded, err := jsonscan.Bytes(text)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(encoded))), encoded)
}
