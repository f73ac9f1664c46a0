package view

import (
	"strings"
	"testing"

	"replicator"
	"replicator/internal/keytemplate"
)

// orderKey renders the key of an entity of the table order, whose key has two columns.
func orderKey(t testing.TB, e *Evaluator, tenant, id any) string {
	t.Helper()
	cell := replicator.Cell{Table: "order", Key: mustKey(t, tenant, id)}
	v := e.Evaluate(cell, &replicator.Row{Cell: cell, Body: []byte("{}")})[0]
	if v.Err != nil || len(v.Entries) != 1 {
		t.Fatalf("no key for %v, %v: %v", tenant, id, v.Err)
	}
	return v.Entries[0].Key
}

func hashOfOrders(key string) *replicator.View {
	return &replicator.View{Name: "v", Kind: "hash", From: from("order", ""), Key: key}
}

func TestKeysOfSeveralValuesDoNotCollide(t *testing.T) {
	tests := []struct {
		template   string
		tenant, id any
		want       string
	}{
		{"o:{tenant}:{id}", "a:b", "c", "o:a%3Ab:c"},
		{"o:{tenant}:{id}", "a", "b:c", "o:a:b:c"},
		{"tag:{tenant}:{id}", "50%", "7", "tag:50%25:7"}, // as docs/types.md says
		{"o:{tenant}:{id}", "a%3Ab", "c%", "o:a%253Ab:c%"},
		{"{tenant}/o/{id}", "a/b", "/", "a%2Fb/o//"},
		{"{id}#{tenant}", "x#", "y#", "y%23#x#"},
		{"{tenant}0:{id}", "0:", "1", "0%3A0:1"}, // 0 may occur in an encoded value, : can't
		{"{tenant}, {id}", int64(-1), uint64(1 << 63), "-1, 9223372036854775808"},
		{"{tenant:hex}-{id:uuid}", []byte("\x00\xff"), rowKey, "00ff-71f0c4d2-2918-44cc-a2df-6f486e96e37c"},
		{"{tenant:base64}.{id}", []byte("\xfb\xff\xbf"), "é", "-_-_.é"},
		{"{{{tenant}}}:{id}", "a", "b", "{a}:b"},
	}
	for _, tt := range tests {
		if got := orderKey(t, mustCompile(t, hashOfOrders(tt.template)), tt.tenant, tt.id); got != tt.want {
			t.Errorf("%s of %v, %v: got %s, want %s", tt.template, tt.tenant, tt.id, got, tt.want)
		}
	}
}

func TestAKeysFormMustNotMakeTwoEntitiesOne(t *testing.T) {
	e := mustCompile(t, hashOfOrders("{tenant}:{id:uuid}"))
	for _, id := range []string{"71F0C4D2-2918-44CC-A2DF-6F486E96E37C", "71f0c4d2291844cca2df6f486e96e37c"} {
		cell := replicator.Cell{Table: "order", Key: mustKey(t, "a", id)}
		v := e.Evaluate(cell, &replicator.Row{Cell: cell, Body: []byte("{}")})[0]
		want := "error: view v: key: {id}: the key's text is not a UUID in lowercase digits " +
			"with dashes, so two entities could get the same key"
		if got := show(v); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzTemplateKeys checks that different entities never get the same key.
func FuzzTemplateKeys(f *testing.F) {
	f.Add("o:", ":", "", "a:b", "c", "a", "b:c")
	f.Add("", "%3A", "x", "%", "3A", "%25", "A")
	f.Add("{", "0:", "}", "0", ":", "0:", "")
	f.Fuzz(func(t *testing.T, before, between, after, a1, b1, a2, b2 string) {
		double := strings.NewReplacer("{", "{{", "}", "}}").Replace
		e, err := Compile([]*replicator.View{hashOfOrders(double(before) + "{tenant}" + double(between) + "{id}" +
			double(after))}, testTables(), plainCodecs)
		if err != nil {
			if keytemplate.Delimiter(between) != 0 {
				t.Fatal(err)
			}
			return
		}
		k1, k2 := orderKey(t, e, a1, b1), orderKey(t, e, a2, b2)
		if (k1 == k2) != (a1 == a2 && b1 == b2) {
			t.Fatalf("(%q, %q) has key %q, (%q, %q) has key %q", a1, b1, k1, a2, b2, k2)
		}
		if !strings.HasPrefix(k1, before) || !strings.HasSuffix(k1, after) {
			t.Fatalf("key %q", k1)
		}
	})
}

// FuzzDefinition checks that no definition makes the compiler panic, and no body the evaluator.
func FuzzDefinition(f *testing.F) {
	f.Add("tags[].a", "x:{tags[]}:{row_key:hex}", "n > 1 && a.b?.c != nil", `{"tags":[{"a":1}],"n":2}`)
	f.Add("=map(l, # + 1)", "{{}}{a:uuid}", "let x = a; x == 1", `{"l":[1,2],"a":"x"}`)
	f.Add(`"a\"b"[0][]`, "{", "$env['x'] in [1..3]", `{"a\"b":[[1]]}`)
	f.Fuzz(func(t *testing.T, path, key, where, body string) {
		views := []*replicator.View{
			{Name: "a", Kind: "index", From: from("cell", "users"), Fields: fields(path), Key: key, Where: where},
			{Name: "b", Kind: "row", From: from("cell", "users"), Fields: fields(path, "="+where)},
		}
		for _, v := range views {
			e, err := Compile([]*replicator.View{v}, testTables(), plainCodecs)
			if err != nil {
				continue
			}
			cell := userCell(t)
			first := show(e.Evaluate(cell, userRow(cell, body))[0])
			if again := show(e.Evaluate(cell, userRow(cell, body))[0]); again != first {
				t.Fatalf("gives %s, then %s", first, again)
			}
		}
	})
}
