package changelog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Decode reads a Kafka record that Encode made. The error wraps ErrNotOurs if it is another's, and shows nothing of
// what the record holds.
func Decode(in *kgo.Record) (*Record, error) {
	r := &Record{Source: SourceOf(in)}
	var err error
	if r.Cell, err = decodeKey(in.Key); err != nil {
		return nil, err
	}
	var what string
	if what, r.State, err = decodeHeaders(in); err != nil {
		return nil, err
	}
	switch {
	case what == opGone:
		if in.Value != nil {
			return nil, notOurs("it is gone and has a value")
		}
		return r, nil
	case what != opDead && what != op(r):
		return nil, notOurs("its header op says %.20q", what)
	}
	if err := decodeRow(r, in.Value); err != nil {
		return nil, err
	}
	if (what == opDead) != (r.Dead != "") {
		return nil, notOurs("its value and its header op do not agree whether it is dead")
	}
	return r, nil
}

// DecodeEntry is the record that a Table's entry was made of.
func DecodeEntry(key []byte, e Entry) (*Record, error) {
	r := &Record{State: e.State}
	var err error
	if r.Cell, err = decodeKey(key); err != nil || e.Value == nil {
		return r, err
	}
	return r, decodeRow(r, e.Value)
}

// CellOf is the cell that a record's key names.
func CellOf(key []byte) (replicator.Cell, error) { return decodeKey(key) }

func decodeHeaders(in *kgo.Record) (what string, s replicator.State, err error) {
	number := func(text []byte) (n int64) {
		if err == nil {
			if n, err = strconv.ParseInt(string(text), 10, 64); err != nil {
				err = notOurs("a header is no number")
			}
		}
		return n
	}
	const all = 4
	seen := 0
	for _, h := range in.Headers {
		switch h.Key {
		case headerOp:
			what = string(h.Value)
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
		err = notOurs("it has not the headers op, version, order and as_of, once each")
	case what != opPut && what != opReset && what != opGone && what != opDead:
		err = notOurs("its header op says %.20q", what)
	case s.Version < replicator.NoVersion || s.Order < 0 || s.AsOf < 0 || s.AsOf > s.Order:
		err = notOurs("its headers have numbers that no cell can have")
	}
	return what, s, err
}

// decodeKey reads what AppendKey appended.
func decodeKey(key []byte) (c replicator.Cell, err error) {
	var k struct {
		Table  *string           `json:"table"`
		Key    []json.RawMessage `json:"key"`
		Column json.RawMessage   `json:"column"`
	}
	if err := json.Unmarshal(key, &k); err != nil || k.Table == nil || len(k.Key) == 0 {
		return c, notOurs(`its key is not of the form {"table":…,"key":[…]}`)
	}
	values := make([]any, len(k.Key))
	for i, text := range k.Key {
		if values[i], err = decodeValue(text); err != nil {
			return c, err
		}
	}
	c.Table = *k.Table
	if c.Key, err = replicator.MakeKey(values...); err != nil {
		return c, notOurs("its key has a value that can't be one")
	}
	if k.Column != nil {
		column, err := decodeValue(k.Column)
		if err != nil {
			return c, err
		}
		if c.Column, _ = column.(string); c.Column == "" {
			return c, notOurs("the column in its key is no text")
		}
	}
	if !bytes.Equal(AppendKey(nil, c), key) {
		return c, notOurs("its key is not in canonical form, so compaction would not find it")
	}
	return c, nil
}

// stored is a record's value.
type stored struct {
	Version  int64           `json:"version"`
	Order    int64           `json:"order"`
	AsOf     int64           `json:"as_of"`
	Dead     string          `json:"dead"`
	Time     time.Time       `json:"time"`
	ColumnAs json.RawMessage `json:"column_as"`
	Columns  json.RawMessage `json:"columns"`
	Body     json.RawMessage `json:"body"`
	Codec    *string         `json:"codec"`
	Raw      []byte          `json:"raw"`
}

func decodeRow(r *Record, value []byte) error {
	var v stored
	if err := json.Unmarshal(value, &v); err != nil {
		return notOurs("its value is not the JSON that it should be")
	}
	if (replicator.State{Version: v.Version, Order: v.Order, AsOf: v.AsOf}) != r.State {
		return notOurs("its value and its headers tell of different states")
	}
	if r.Dead = v.Dead; r.Dead != "" {
		return nil
	}
	row := &replicator.Row{Cell: r.Cell, Version: v.Version, Order: v.Order, Time: v.Time}
	if v.ColumnAs != nil {
		as, err := decodeValue(v.ColumnAs)
		if err != nil {
			return err
		}
		row.ColumnAs, _ = as.(string)
	}
	if v.Codec != nil {
		if row.Body, r.Codec = v.Raw, *v.Codec; row.Body == nil {
			return notOurs("it names a codec and has no raw body")
		}
	} else if v.Body != nil {
		row.Body, r.Codec = v.Body, "json"
	}
	r.Row = row
	return decodeColumns(row, v.Columns)
}

// decodeColumns reads the columns in their order, which is part of what a row is.
func decodeColumns(row *replicator.Row, text json.RawMessage) error {
	if text == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notOurs("its columns are no object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return notOurs("its columns are no object")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return notOurs("a column's value is no JSON")
		}
		decoded, err := decodeValue(value)
		if err != nil {
			return err
		}
		text, _ := name.(string)
		row.Names, row.Columns = append(row.Names, text), append(row.Columns, decoded)
	}
	return nil
}

// decodeValue reads what appendValue appended.
func decodeValue(text json.RawMessage) (any, error) {
	switch c := text[0]; {
	case c == 'n':
		return nil, nil
	case c == 't' || c == 'f':
		return c == 't', nil
	case c == '"':
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, notOurs("a text is none")
		}
		return s, nil
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

func decodeTagged(text json.RawMessage) (any, error) {
	var tagged map[string]json.RawMessage
	if err := json.Unmarshal(text, &tagged); err != nil || len(tagged) != 1 {
		return nil, notOurs("a value is an object of another form")
	}
	for tag, value := range tagged {
		if tag == tagJSON {
			return replicator.RawJSON(value), nil
		}
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return nil, notOurs("a value is an object of another form")
		}
		if tag == tagDecimal {
			return replicator.Number(s), nil
		}
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, notOurs("a value is no base64")
		}
		switch tag {
		case tagBytes:
			return data, nil
		case tagText:
			return string(data), nil
		case tagBadJSON:
			return replicator.RawJSON(data), nil
		}
	}
	return nil, notOurs("a value is an object of another form")
}
