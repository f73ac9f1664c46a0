package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"replicator"
)

// plainDecoder is a simple and slow decoder that uses encoding/json.
type plainDecoder []string

func (d plainDecoder) Decode(body []byte, values []any) error {
	v, err := plainJSON(body)
	if err != nil {
		return err
	}
	doc, ok := v.(replicator.Object)
	if !ok {
		return errors.New("the body is no object")
	}
	for i, name := range d {
		values[i] = doc.Get(name)
	}
	return nil
}

func plainJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("bad JSON")
	}
	return plainValue(v), nil
}

func plainValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return u
		}
		return replicator.Number(v)
	case []any:
		for i := range v {
			v[i] = plainValue(v[i])
		}
	case map[string]any:
		if what, ok := v["unread"].(string); ok { // a value that no view can hold, as in some pickles
			return replicator.Unread(what)
		}
		for name := range v {
			v[name] = plainValue(v[name])
		}
		return replicator.ObjectOf(v)
	}
	return v
}

var plainCodecs = Codecs{
	Body:     func(_ string, names []string) (Decoder, error) { return plainDecoder(names), nil },
	JSON:     plainJSON,
	Document: func(string) (func([]byte) (replicator.Object, error), error) { return nil, nil }, // bodies are JSON text
}

// testTables returns tables of four different designs.
func testTables() []replicator.Table {
	return []replicator.Table{
		{Name: "cell", Table: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key",
			Body: "body", Codec: "json"},
		{Name: "account", Table: "account", Key: []string{"entity_id"}, Version: "version", Body: "state", Codec: "json"},
		{Name: "favorite", Table: "favorite", Key: []string{"object_id", "user_id"}},
		{Name: "order", Table: "order", Key: []string{"tenant", "id"}, Body: "body", Codec: "json"},
	}
}

var rowKey = []byte("\x71\xf0\xc4\xd2\x29\x18\x44\xcc\xa2\xdf\x6f\x48\x6e\x96\xe3\x7c")

func mustKey(t testing.TB, values ...any) replicator.Key {
	t.Helper()
	k, err := replicator.MakeKey(values...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func userCell(t testing.TB) replicator.Cell {
	return replicator.Cell{Table: "cell", Key: mustKey(t, rowKey), Column: "users"}
}

func userRow(cell replicator.Cell, body string) *replicator.Row {
	return &replicator.Row{Cell: cell, Version: 7, Body: []byte(body)}
}

func mustCompile(t testing.TB, views ...*replicator.View) *Evaluator {
	t.Helper()
	e, err := Compile(views, testTables(), plainCodecs)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// show formats a value's entries, one per line, or its error.
func show(v replicator.Value) string {
	if v.Err != nil {
		return "error: " + v.Err.Error()
	}
	var lines []string
	for _, e := range v.Entries {
		var parts []string
		if e.Key != "" {
			parts = append(parts, "key="+e.Key)
		}
		if e.Member != "" {
			parts = append(parts, "member="+e.Member)
		}
		for _, f := range e.Fields {
			parts = append(parts, fmt.Sprintf("%T(%v)", f, f))
		}
		lines = append(lines, strings.Join(parts, " "))
	}
	return strings.Join(lines, " | ")
}

func fields(paths ...string) []replicator.Field {
	var list []replicator.Field
	for _, p := range paths {
		list = append(list, replicator.Field{Name: "f" + strconv.Itoa(len(list)), Path: p})
	}
	return list
}

func from(table, column string) []replicator.Feed {
	return []replicator.Feed{{Table: table, Column: column}}
}
