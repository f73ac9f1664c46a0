package service

import (
	"testing"

	"replicator"
)

func TestAnEntryIsShownWithItsKeyBesideFieldsOfThatName(t *testing.T) {
	for _, c := range []struct {
		names []string
		entry replicator.Entry
		want  string
	}{
		{[]string{"a"}, replicator.Entry{Key: "k", Member: "m", Fields: []any{int64(1)}}, `{"a":1,"key":"k","member":"m"}`},
		{[]string{"a"}, replicator.Entry{Fields: []any{nil}}, `{}`},
		{[]string{"key", "member"}, replicator.Entry{Key: "k", Member: "m", Fields: []any{"f", nil}},
			`{"$key":"k","$member":"m","key":"f"}`},
	} {
		v := &replicator.View{}
		for _, name := range c.names {
			v.Fields = append(v.Fields, replicator.Field{Name: name})
		}
		if got := string(replicator.AppendJSON(nil, bodies{}.entry(v, c.entry))); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
