package view

import (
	"errors"
	"slices"
	"testing"

	"replicator"
)

func TestWhatCannotWorkIsRefusedWithTheFix(t *testing.T) {
	users, favorite, order := from("cell", "users"), from("favorite", ""), from("order", "")
	const move = "must consist of the table's key, so that an entry never moves, but "
	tests := []struct {
		view replicator.View
		want string
	}{
		{replicator.View{Kind: "index"}, "from: does not name a table"},
		{replicator.View{Kind: "index", From: from("cel", "")}, "from: there is no table cel (did you mean cell?)"},
		{replicator.View{Kind: "index", From: from("zzzzzz", "")}, "from: there is no table zzzzzz"},
		{replicator.View{Kind: "indx", From: users}, `kind: there is no kind "indx" (did you mean index?)`},
		{replicator.View{Kind: "index", From: users},
			"fields: an index needs a field, or a key template with the property to search by"},
		{replicator.View{Kind: "index", From: users, Fields: fields("a", "a..b")},
			"fields.f1: path a..b: a name is empty; write names with odd characters in double quotes"},
		{replicator.View{Kind: "index", From: users, Fields: fields("a[x]")},
			"fields.f0: path a[x]: [x] is not an index. Write [] for every element or [0] for the first"},
		{replicator.View{Kind: "index", From: users, Fields: fields("a[-1]")},
			"fields.f0: path a[-1]: [-1] is not an index. Write [] for every element or [0] for the first"},
		{replicator.View{Kind: "index", From: users, Fields: fields("a[0")}, "fields.f0: path a[0: a bracket is not closed"},
		{replicator.View{Kind: "index", From: users, Fields: fields(`"a`)}, `fields.f0: path "a: a quote is not closed`},
		{replicator.View{Kind: "index", From: users, Fields: fields("a[0]b")},
			`fields.f0: path a[0]b: expected a dot or a bracket, and found "b"`},
		{replicator.View{Kind: "index", From: users, Fields: fields("$body")},
			"fields.f0: $body is the body of table cell. Name a property of the body, without $"},
		{replicator.View{Kind: "index", From: users, Fields: fields("$row_key.a")},
			"fields.f0: column row_key of table cell is a plain value, so a path can't lead into it"},

		{replicator.View{Kind: "index", From: users, Fields: fields("=lower(")},
			"fields.f0: unexpected token EOF (at character 6)"},
		{replicator.View{Kind: "index", From: users, Fields: fields("=lowr(email)")},
			"fields.f0: there is no function lowr (did you mean lower?)"},
		{replicator.View{Kind: "index", From: users, Fields: fields("=now()")},
			"fields.f0: the function now is not available, because a view must depend only on its cells"},
		{replicator.View{Kind: "index", From: users, Fields: fields("=a.b()")},
			"fields.f0: only functions can be called, not properties"},
		{replicator.View{Kind: "index", From: users, Fields: fields("=keys($env)")},
			`fields.f0: $env is not followed by a name. Write $env["name"] for a property with an odd name`},
		{replicator.View{Kind: "index", From: users, Fields: fields("=1 + 'a'")},
			"fields.f0: invalid operation: + (mismatched types int and string) (at character 3)"},
		{replicator.View{Kind: "index", From: users, Fields: fields("a"), Where: "1 + 1"},
			"where: expected bool, but got int"},
		{replicator.View{Kind: "index", From: users, Fields: fields("a"), Where: "a ="},
			"where: unexpected token Operator(\"=\") (at character 3); compare with =="},
		{replicator.View{Kind: "index", From: users, Fields: fields("a"), Where: "a == 1 AND true"},
			"where: unexpected token Identifier(\"AND\") (at character 8); use and"},

		{replicator.View{Kind: "hash", From: users}, `key: a hash needs a key. Set key to a template such as ` +
			`"v:{row_key}"`},
		{replicator.View{Kind: "ranking", From: users}, "key: a ranking needs a key, the name of its sorted set"},
		{replicator.View{Kind: "hash", From: users, Key: "user:{email}"},
			"key: the key " + move + "{email} is not a key column of table cell. To find cells by another property, " +
				"use an index"},
		{replicator.View{Kind: "hash", From: users, Key: "user:{row_kay}"},
			"key: the key " + move +
				"{row_kay} is not a key column of table cell (did you mean row_key?). To find cells by another " +
				"property, use an index"},
		{replicator.View{Kind: "json", From: users, Key: "{$column_name}"},
			"key: the key " + move + "{$column_name} is not a key column of table cell. To find cells by another " +
				"property, use an index"},
		{replicator.View{Kind: "hash", From: users, Key: "user"},
			"key: the key must contain all key columns of table cell, or entities would share a key. Add {row_key}"},
		{replicator.View{Kind: "document", From: order, Key: "{id}"},
			"key: the key must contain all key columns of table order, or entities would share a key. Add {tenant}"},
		{replicator.View{Kind: "document", From: order, Member: "{region}"},
			"routing: routing " + move + "{region} is not a key column of table order. To find cells by another " +
				"property, use an index"},
		{replicator.View{Kind: "hash", From: append(from("order", ""), favorite...), Key: "{tenant}:{id}"},
			"key: the key " + move + "{tenant} is not a key column of table favorite. To find cells by another " +
				"property, use an index"},
		{replicator.View{Kind: "hash", From: order, Key: "{tenant}{id}"},
			"key: {tenant} and {id} need a character such as : between them, or different values could make the " +
				"same key"},
		{replicator.View{Kind: "hash", From: order, Key: "{tenant}0A%{id}"},
			"key: {tenant} and {id} need a character such as : between them, or different values could make the " +
				"same key"},
		{replicator.View{Kind: "index", From: users, Key: "score:{=score + 1}"},
			"key: {=score + 1}: a template can contain columns and members of the body, but not expressions"},
		{replicator.View{Kind: "hash", From: users, Key: "{row_key:uid}"},
			`key: "uid" is not a template format (did you mean uuid?). Use uuid, hex or base64`},
		{replicator.View{Kind: "hash", From: users, Key: "{row_key"},
			"key: a { in the template is not closed by }; write {{ for the character itself"},
		{replicator.View{Kind: "hash", From: users, Key: "row_key}"},
			"key: a } in the template closes nothing; write }} for the character itself"},
		{replicator.View{Kind: "hash", From: users, Key: "{}"},
			"key: path : a name is empty; write names with odd characters in double quotes"},

		{replicator.View{Kind: "counter", From: users, Fields: fields("a", "b"), Sum: "c"},
			`fields.f1: the last field of a counter is its amount, so the path must be "c", not "b"`},
		{replicator.View{Kind: "counter", From: users, Fields: fields("a", "l[].b"), Sum: "l[].b"},
			`sum: a cell has only one amount. Write an expression over the list, such as "=sum(lines, .qty)"`},
	}
	for _, tt := range tests {
		tt.view.Name = "v"
		_, err := Compile([]*replicator.View{&tt.view}, testTables(), plainCodecs)
		if want := "view v: " + tt.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestKeysThatHoldTheWholeKeyAreAccepted(t *testing.T) {
	mustCompile(t,
		&replicator.View{Name: "hash", Kind: "hash", From: from("order", ""), Key: "{{o}}:{$id}/{tenant:hex}"},
		&replicator.View{Name: "routed", Kind: "document", From: from("order", ""), Key: "{tenant}:{id}", Member: "{tenant}"},
	)
}

func TestADecoderThatCannotBeMadeIsAnError(t *testing.T) {
	codecs := Codecs{Body: func(string, []string) (Decoder, error) { return nil, errors.New("no such codec") }}
	_, err := Compile([]*replicator.View{userView(replicator.View{Kind: "index",
		Fields: fields("a")})}, testTables(), codecs)
	if err == nil || err.Error() != "table cell: no such codec" {
		t.Errorf("got %v", err)
	}
}

func TestDecodersAreAskedForWhatACellsViewsNeedAndNoMore(t *testing.T) {
	var asked [][]string
	codecs := Codecs{Body: func(table string, names []string) (Decoder, error) {
		asked = append(asked, append([]string{table}, names...))
		return plainDecoder(names), nil
	}}
	views := []*replicator.View{
		{Name: "a", Kind: "index", From: from("cell", "users"), Fields: fields("email", "address.city", "=lower(email)"),
			Where: "active && address.zip != nil"},
		{Name: "b", Kind: "index", From: from("cell", "users"), Key: "x:{tags[]}:{row_key}"},
		{Name: "c", Kind: "row", From: from("cell", "companies"), Fields: fields("$row_key")},
		{Name: "d", Kind: "row", From: from("favorite", ""), Fields: fields("cnt")},
	}
	if _, err := Compile(views, testTables(), codecs); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"cell", "email", "address", "active", "tags"}}
	if !slices.EqualFunc(asked, want, slices.Equal[[]string]) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}

func TestColumnsThatViewsNeed(t *testing.T) {
	views := []*replicator.View{
		{Name: "a", Kind: "index", From: from("cell", "users"), Fields: fields("email", "$created_at", "=$added_at > n"),
			Where: "$meta.x ?? true"},
		{Name: "b", Kind: "index", From: from("cell", "users"), Key: "{$ref_key}:{$row_key}:{$column_name}"},
		{Name: "c", Kind: "counter", From: from("favorite", ""), Fields: fields("object_id", "cnt"), Sum: "cnt",
			Where: "upper(state.kind) == 'X'"},
		{Name: "d", Kind: "index", From: from("favorite", ""), Key: "{object_id}:{day}", Member: "{user_id}"},
		{Name: "e", Kind: "index", From: from("account", ""), Fields: fields("x")},
		{Name: "f", Kind: "row", From: slices.Concat(from("favorite", ""), from("cell", "users")),
			Fields: fields("cnt", "comment", "$seen", "=lower(name)")},
	}
	wantOptional := map[string][]string{"cell": {"seen"}, "favorite": {"comment", "name", "seen"}}
	want := map[string][]string{
		"cell":     {"added_at", "created_at", "meta", "ref_key"},
		"favorite": {"cnt", "day", "state"},
		"account":  nil,
	}
	for _, table := range testTables() {
		got, optional, err := Columns(views, testTables(), table.Name)
		if err != nil || !slices.Equal(got, want[table.Name]) || !slices.Equal(optional, wantOptional[table.Name]) {
			t.Errorf("%s: got %v, %v, %v; want %v, %v", table.Name, got, optional, err, want[table.Name],
				wantOptional[table.Name])
		}
	}
	if _, _, err := Columns([]*replicator.View{{Name: "v", Kind: "index", From: from("cell", ""), Fields: fields("")}},
		testTables(), "cell"); err == nil {
		t.Error("a bad path is no error")
	}
}
