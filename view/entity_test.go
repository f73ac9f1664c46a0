package view

import (
	"testing"

	"replicator"
)

func TestEntitiesRendersWhatEvaluateSays(t *testing.T) {
	tables := []replicator.Table{{Name: "fav", Table: "fav", Key: []string{"user", "object"}}}
	v := &replicator.View{Name: "d", Kind: "document", From: []replicator.Feed{{Table: "fav"}},
		Key: "{user:uuid}/{object}", Member: "{user:hex}"}
	entity, err := Entities([]*replicator.View{v}, tables)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Compile([]*replicator.View{v}, tables, Codecs{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := replicator.MakeKey([]byte("0123456789abcdef"), int64(7))
	if err != nil {
		t.Fatal(err)
	}
	cell := replicator.Cell{Table: "fav", Key: key}
	got, member, err := entity(v, cell)
	if err != nil {
		t.Fatal(err)
	}
	want := e.Evaluate(cell, &replicator.Row{Cell: cell})[0].Entries[0]
	if got != want.Key || member != want.Member || got != "30313233-3435-3637-3839-616263646566/7" {
		t.Errorf("the id is %q and the routing %q; an entry has %q and %q", got, member, want.Key, want.Member)
	}
	shadow := *v
	shadow.Name, shadow.Shadows = "d"+replicator.ShadowSuffix, "d"
	if again, _, err := entity(&shadow, cell); err != nil || again != got {
		t.Errorf("of a shadow the id is %q, %v", again, err)
	}
	if _, _, err := entity(&replicator.View{Name: "other"}, cell); err == nil {
		t.Error("a view that is not known has no entities")
	}
}
