package view

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"replicator"
)

// definition is what a fingerprint covers. Its JSON, followed by the JSON of the view's settings, is hashed. Stores and
// sinks keep the hash, so the names and order of the fields must never change. A field that is added later must be
// omitted when empty, so that old definitions keep their hash.
type definition struct {
	Format int                `json:"format"`
	Name   string             `json:"name"`
	Sink   string             `json:"sink"`
	Kind   string             `json:"kind"`
	From   []feedDefinition   `json:"from"`
	Fields []replicator.Field `json:"fields,omitempty"`
	Key    string             `json:"key,omitempty"`
	Member string             `json:"member,omitempty"`
	Where  string             `json:"where,omitempty"`
	Sum    string             `json:"sum,omitempty"`
	Joins  []joinDefinition   `json:"joins,omitempty"`
}

// feedDefinition describes one table that feeds a view. It omits the table's offset column, which affects only the
// order of scans.
type feedDefinition struct {
	Table       string   `json:"table"`
	Column      string   `json:"column,omitempty"`
	Database    string   `json:"database,omitempty"`
	SourceTable string   `json:"source_table,omitempty"`
	Key         []string `json:"key,omitempty"`
	ColumnRole  string   `json:"column_role,omitempty"`
	Version     string   `json:"version,omitempty"`
	Body        string   `json:"body,omitempty"`
	Codec       string   `json:"codec,omitempty"`
}

type joinDefinition struct {
	Name   string             `json:"name"`
	Table  feedDefinition     `json:"table"`
	On     [][3]string        `json:"on"` // column, join and path, as in replicator.JoinOn
	Many   bool               `json:"many,omitempty"`
	Fields []replicator.Field `json:"fields,omitempty"`
	Where  string             `json:"where,omitempty"`
	Order  []string           `json:"order,omitempty"`
	Limit  int                `json:"limit,omitempty"`
}

// fingerprintFormat must change if a new version of replicator makes different contents for a view whose definition is
// unchanged.
const fingerprintFormat = 1

// Fingerprint returns a hash of what determines the view's content: its definition (except OnChange) and the roles of
// its tables.
func Fingerprint(v *replicator.View, tables []replicator.Table) string {
	d := definition{
		Format: fingerprintFormat, Name: v.Name, Sink: v.Sink, Kind: v.Kind, Fields: v.Fields, Key: v.Key, Member: v.Member,
		Where: v.Where, Sum: v.Sum,
	}
	for _, from := range v.From {
		d.From = append(d.From, defineFeed(from, tables))
	}
	for _, j := range v.Joins {
		defined := joinDefinition{Name: j.Name, Table: defineFeed(replicator.Feed{Table: j.Table}, tables), Many: j.Many,
			Fields: j.Fields, Where: j.Where, Order: j.Order, Limit: j.Limit}
		for _, on := range j.On {
			defined.On = append(defined.On, [3]string{on.Column, on.From, on.Path})
		}
		d.Joins = append(d.Joins, defined)
	}
	sum := sha256.Sum256(withMembers(marshal(d), marshal(v.Settings)))
	return hex.EncodeToString(sum[:16])
}

func defineFeed(from replicator.Feed, tables []replicator.Table) feedDefinition {
	f := feedDefinition{Table: from.Table, Column: from.Column}
	for _, t := range tables {
		if t.Name == from.Table {
			f.Database, f.SourceTable, f.Key, f.ColumnRole = t.Database, t.Table, t.Key, t.Column
			f.Version, f.Body, f.Codec = t.Version, t.Body, t.Codec
		}
	}
	return f
}

func marshal(definition any) []byte {
	text, err := json.Marshal(definition)
	if err != nil {
		// Can't happen: strings, booleans and maps of strings always marshal.
		panic(fmt.Sprintf("can't encode a view's definition: %v", err))
	}
	return text
}

// withMembers merges two JSON objects. more may be null or empty.
func withMembers(object, more []byte) []byte {
	if string(more) == "null" || string(more) == "{}" {
		return object
	}
	return slices.Concat(object[:len(object)-1], []byte(","), more[1:])
}
