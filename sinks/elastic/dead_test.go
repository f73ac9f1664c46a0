package elastic_test

import (
	"encoding/json"
	"testing"
)

// An index from before states told of dead letters gets what finds them when it is opened.
func TestAnOlderIndexFindsDeadLetters(t *testing.T) {
	b := newBench(t, `{"properties": {"n": {"type": "integer"}}}`)
	index := indexOf(b.view) + "-r1"
	var found map[string]struct {
		Aliases  map[string]json.RawMessage `json:"aliases"`
		Mappings map[string]json.RawMessage `json:"mappings"`
	}
	if err := json.Unmarshal(b.do("GET", "/"+index, ""), &found); err != nil {
		t.Fatal(err)
	}
	older := found[index]
	older.Mappings["properties"] = json.RawMessage(`{"n": {"type": "integer"}, "_replicator": {"type": "object", "dynamic": false,
		"properties": {"hidden": {"type": "boolean", "doc_values": false}, "cells": {"type": "object", "enabled": false}}}}`)
	text, err := json.Marshal(map[string]any{"aliases": older.Aliases, "mappings": older.Mappings})
	if err != nil {
		t.Fatal(err)
	}
	b.do("DELETE", "/"+index, "")
	b.do("PUT", "/"+index, string(text))
	b.open()
	c := cellOf(t, "users", 1)
	if a := b.apply(op(c, 1, "name", "no number")); len(a.Rejected) != 1 {
		t.Fatalf("%+v", a)
	}
	cells, next, err := b.target.Dead(t.Context(), 0, "", 10)
	if err != nil || next != "" || len(cells) != 1 || cells[0] != c {
		t.Errorf("dead are %v (%q, %v)", cells, next, err)
	}
}
