package view

import (
	"testing"

	"replicator"
)

// settings stands for the view settings of some sink.
type settings struct {
	KeyFrom []replicator.Field `json:"key_from,omitempty"`
	Table   string             `json:"table,omitempty"`
	Types   map[string]string  `json:"types,omitempty"`
}

func fingerprinted() (*replicator.View, []replicator.Table) {
	return &replicator.View{
		Name: "users", Sink: "main", Kind: "row", From: from("cell", "users"), Fields: fields("username",
			"email"), OnChange: "refuse",
		Settings: settings{
			KeyFrom: []replicator.Field{{Name: "id",
				Path: "$row_key"}}, Table: "users", Types: map[string]string{"a": "INT", "b": "TEXT"},
		},
	}, testTables()
}

// joinedWith returns a function that adds a join to the view. change modifies the join before.
func joinedWith(change func(*replicator.Join)) func(*replicator.View, []replicator.Table) {
	return func(v *replicator.View, _ []replicator.Table) {
		j := replicator.Join{Name: "likes", Table: "favorite", On: on("user_id", "", "row_key")}
		change(&j)
		v.Joins = []replicator.Join{j}
	}
}

func TestTheFingerprintOfAJoinNeverChanges(t *testing.T) {
	v, tables := fingerprinted()
	joinedWith(func(j *replicator.Join) { j.Many, j.Limit = true, 3 })(v, tables)
	const stored = "c0d7bb7257b2bc93f33f6b4d1e679ec9" // existing stores and sinks have it
	if got := Fingerprint(v, tables); got != stored {
		t.Errorf("the fingerprint of an unchanged view was %s and is %s: every user's views would be refused", stored, got)
	}
}

func TestAFingerprintNeverChanges(t *testing.T) {
	v, tables := fingerprinted()
	const stored = "a9c65bfcb9368fd533edd4487244577e" // existing stores and sinks have it
	if got := Fingerprint(v, tables); got != stored {
		t.Errorf("the fingerprint of an unchanged view was %s and is %s: every user's views would be refused", stored, got)
	}
}

func TestAFingerprintTellsWhatAViewHolds(t *testing.T) {
	v, tables := fingerprinted()
	base := Fingerprint(v, tables)
	same := map[string]func(*replicator.View, []replicator.Table){
		"on_change":        func(v *replicator.View, _ []replicator.Table) { v.OnChange = "rebuild" },
		"offset":           func(_ *replicator.View, t []replicator.Table) { t[0].Offset = []string{"added_at"} },
		"columns":          func(_ *replicator.View, t []replicator.Table) { t[0].Columns = []string{"x"} },
		"another table":    func(_ *replicator.View, t []replicator.Table) { t[1].Codec = "msgpack" },
		"shadows":          func(v *replicator.View, _ []replicator.Table) { v.Shadows = "x" },
		"a join elsewhere": func(_ *replicator.View, t []replicator.Table) { t[2].Key = nil },
		"the stored value": func(v *replicator.View, _ []replicator.Table) { v.Fingerprint = "x" },
	}
	for name, change := range same {
		v, tables := fingerprinted()
		if change(v, tables); Fingerprint(v, tables) != base {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
	other := map[string]func(*replicator.View, []replicator.Table){
		"name":  func(v *replicator.View, _ []replicator.Table) { v.Name = "x" },
		"sink":  func(v *replicator.View, _ []replicator.Table) { v.Sink = "x" },
		"kind":  func(v *replicator.View, _ []replicator.Table) { v.Kind = "x" },
		"from":  func(v *replicator.View, _ []replicator.Table) { v.From[0].Column = "x" },
		"field": func(v *replicator.View, _ []replicator.Table) { v.Fields[0].Name = "x" },
		"path":  func(v *replicator.View, _ []replicator.Table) { v.Fields[0].Path = "x" },
		"order": func(v *replicator.View, _ []replicator.Table) {
			v.Fields[0],
				v.Fields[1] = v.Fields[1], v.Fields[0]
		},
		"key":          func(v *replicator.View, _ []replicator.Table) { v.Key = "x" },
		"member":       func(v *replicator.View, _ []replicator.Table) { v.Member = "x" },
		"where":        func(v *replicator.View, _ []replicator.Table) { v.Where = "x" },
		"sum":          func(v *replicator.View, _ []replicator.Table) { v.Sum = "x" },
		"settings":     func(v *replicator.View, _ []replicator.Table) { v.Settings = settings{Table: "x"} },
		"no settings":  func(v *replicator.View, _ []replicator.Table) { v.Settings = nil },
		"database":     func(_ *replicator.View, t []replicator.Table) { t[0].Database = "x" },
		"table":        func(_ *replicator.View, t []replicator.Table) { t[0].Table = "x" },
		"key role":     func(_ *replicator.View, t []replicator.Table) { t[0].Key = []string{"x"} },
		"column role":  func(_ *replicator.View, t []replicator.Table) { t[0].Column = "x" },
		"version role": func(_ *replicator.View, t []replicator.Table) { t[0].Version = "x" },
		"body":         func(_ *replicator.View, t []replicator.Table) { t[0].Body = "x" },
		"codec":        func(_ *replicator.View, t []replicator.Table) { t[0].Codec = "x" },
		"join":         joinedWith(func(*replicator.Join) {}),
		"join's name":  joinedWith(func(j *replicator.Join) { j.Name = "x" }),
		"join's table": joinedWith(func(j *replicator.Join) { j.Table = "account" }),
		"join's role": func(v *replicator.View, t []replicator.Table) {
			joinedWith(func(*replicator.Join) {})(v, t)
			t[2].Key = []string{"x"}
		},
		"join's column": joinedWith(func(j *replicator.Join) { j.On[0].Column = "x" }),
		"join's start":  joinedWith(func(j *replicator.Join) { j.On[0].From = "x" }),
		"join's path":   joinedWith(func(j *replicator.Join) { j.On[0].Path = "x" }),
		"join's many":   joinedWith(func(j *replicator.Join) { j.Many = true }),
		"join's fields": joinedWith(func(j *replicator.Join) { j.Fields = fields("x") }),
		"join's where":  joinedWith(func(j *replicator.Join) { j.Where = "x" }),
		"join's order":  joinedWith(func(j *replicator.Join) { j.Order = []string{"x"} }),
		"join's limit":  joinedWith(func(j *replicator.Join) { j.Limit = 1 }),
	}
	seen := map[string]string{base: "nothing"}
	for name, change := range other {
		v, tables := fingerprinted()
		change(v, tables)
		fp := Fingerprint(v, tables)
		if as, ok := seen[fp]; ok {
			t.Errorf("changing %s gives the fingerprint of changing %s", name, as)
		}
		seen[fp] = name
	}
}

func TestSettingsThatSayNothingDoNotCount(t *testing.T) {
	v, tables := fingerprinted()
	v.Settings = nil
	none := Fingerprint(v, tables)
	if v.Settings = (settings{}); Fingerprint(v, tables) != none {
		t.Error("settings that are all empty change the fingerprint")
	}
}
