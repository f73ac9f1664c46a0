package view

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"replicator"
)

// userView completes v to a view of the users cells of the jogchat example.
func userView(v replicator.View) *replicator.View {
	v.Name, v.From = "v", from("cell", "users")
	return &v
}

func TestWhatACellContributes(t *testing.T) {
	index := func(paths ...string) replicator.View { return replicator.View{Kind: "index", Fields: fields(paths...)} }
	row := func(paths ...string) replicator.View { return replicator.View{Kind: "row", Fields: fields(paths...)} }
	tests := []struct {
		name string
		view replicator.View
		body string
		want string
	}{
		{"index", index("email"), `{"email":"a@b"}`, "string(a@b)"},
		{"index of several properties", index("email", "phone"), `{"email":"a@b","phone":5551234567}`,
			"string(a@b) int64(5551234567)"},
		{"index without the property", index("email", "phone"), `{"email":"a@b"}`, ""},
		{"index of null", index("email"), `{"email":null}`, ""},
		{"index of an empty text", index("email"), `{"email":""}`, "string()"},
		{"index of a list", index("tags"), `{"tags":["a"]}`,
			"error: view v: tags is a list, which an index can't hold. Write tags[] for an entry of each element"},
		{"index of an object", index("a"), `{"a":{"secret":1}}`,
			"error: view v: a is an object, which an index can't hold. Name a property in it"},
		{"index of a nested property", index("a.b.c"), `{"a":{"b":{"c":1}}}`, "int64(1)"},
		{"nested through a scalar", index("a.b.c"), `{"a":{"b":3}}`, ""},
		{"nested through a list", index("a.b"), `{"a":[{"b":3}]}`, ""},
		{"odd name", index(`"a.b"."c[\"]"`), `{"a.b":{"c[\"]":1}}`, "int64(1)"},
		{"element", index("a[1]"), `{"a":[1,2]}`, "int64(2)"},
		{"element that is not there", index("a[2]"), `{"a":[1,2]}`, ""},
		{"every element", index("tags[]"), `{"tags":["a","b",null,"a"]}`, "string(a) | string(b)"},
		{"no element", index("tags[]"), `{"tags":[]}`, ""},
		{"missing list", index("tags[]"), `{}`, ""},
		{"every element of no list", index("tags[]"), `{"tags":"a"}`,
			"error: view v: tags[]: the value before [] is a text, not a list"},
		{"elements that are lists", index("tags[]"), `{"tags":[["a"]]}`,
			"error: view v: tags[] is a list, which an index can't hold. Write tags[][] for an entry of each element"},
		{"list of lists", index("m[][]"), `{"m":[[1,2],[],[3]]}`, "int64(1) | int64(2) | int64(3)"},
		{"one list's properties go together", index("items[].sku", "items[].qty"),
			`{"items":[{"sku":"x","qty":1},{"sku":"y"},{"sku":"z","qty":3}]}`,
			"string(x) int64(1) | string(z) int64(3)"},
		{"two lists are combined", index("a[]", "b[]"), `{"a":[1,2],"b":["x","y"]}`,
			"int64(1) string(x) | int64(1) string(y) | int64(2) string(x) | int64(2) string(y)"},
		{"lists in lists", index("o[].id", "o[].lines[].sku"),
			`{"o":[{"id":1,"lines":[{"sku":"a"},{"sku":"b"}]},{"id":2,"lines":[]},{"id":3,"lines":[{"sku":"c"}]}]}`,
			"int64(1) string(a) | int64(1) string(b) | int64(3) string(c)"},
		{"1 and 1.0 and text are different", index("a[]"), `{"a":[1,1.0,"1",true,1]}`,
			"int64(1) | replicator.Number(1.0) | string(1) | bool(true)"},
		{"expression that gives a list", index("=split(tags, ',')"), `{"tags":"a,b,a"}`, "string(a) | string(b)"},

		{"row", row("username", "email", "activate"), `{"username":"ada","activate":true,"email":null}`,
			"string(ada) <nil>(<nil>) bool(true)"},
		{"row of nothing", row("username"), `{}`, "<nil>(<nil>)"},
		{"row with a list", row("tags"), `{"tags":[1]}`, "[]interface {}([1])"},
		{"row with every element", row("items[].sku"), `{"items":[{"sku":"x"},{},{"sku":"y"}]}`, "[]interface {}([x y])"},
		{"row with no element", row("tags[]"), `{"tags":[]}`, "[]interface {}([])"},
		{"row with a missing list", row("tags[]"), `{}`, "<nil>(<nil>)"},
		{"own columns", row("$row_key", "$column_name", "$ref_key", "$created_at"), `{}`,
			"[]uint8([113 240 196 210 41 24 68 204 162 223 111 72 110 150 227 124]) string(users) int64(7) string(2026-01-02 03:04:05)"},
		{"own JSON column", row("$meta.city", "$meta"), `{}`, "string(Oslo) replicator.Object([{city Oslo}])"},
		{"JSON in a text column", row("$note.a", "$note"), `{}`, `int64(1) string({"a":1})`},
		{"elements of a list in a text column", index("$labels[]"), `{}`, "string(a) | int64(7)"},
		{"and in a key", replicator.View{Kind: "index", Key: "{$labels[]}"}, `{}`, "key=a | key=7"},
		{"and the text", row("$labels[]", "$labels"), `{}`, `[]interface {}([a 7]) string(["a",7])`},
		{"own column that the row lacks", row("$gone"), `{}`, "error: view v: $gone: the row has no column gone"},

		{"where", replicator.View{Kind: "index", Fields: fields("email"), Where: "activate == true"},
			`{"email":"a","activate":true}`, "string(a)"},
		{"where is false", replicator.View{Kind: "index", Fields: fields("email"), Where: "activate == true"},
			`{"email":"a","activate":false}`, ""},
		{"where over something missing", replicator.View{Kind: "row", Fields: fields("email"),
			Where: "activate != true"}, `{"email":"a"}`, ""},
		{"where that is no condition", replicator.View{Kind: "index", Fields: fields("email"), Where: "activate"},
			`{"email":"a","activate":1}`,
			"error: view v: where: the result is a number, not true or false"},

		{"hash", replicator.View{Kind: "hash", Key: "user:{row_key}", Fields: fields("username")}, `{"username":"ada"}`,
			"key=user:71f0c4d2291844cca2df6f486e96e37c string(ada)"},
		{"json", replicator.View{Kind: "json", Key: "user:{$row_key:uuid}", Fields: fields("a")}, `{"a":{"b":[1]}}`,
			"key=user:71f0c4d2-2918-44cc-a2df-6f486e96e37c replicator.Object([{b [1]}])"},
		{"document", replicator.View{Kind: "document", Key: "{row_key:base64}", Member: "{row_key:hex}",
			Fields: fields("a")}, `{"a":1}`,
			"key=cfDE0ikYRMyi329IbpbjfA member=71f0c4d2291844cca2df6f486e96e37c int64(1)"},
		{"document of the cell's key", replicator.View{Kind: "document", Fields: fields("a")}, `{"a":1}`, "int64(1)"},
		{"redis index", replicator.View{Kind: "index", Key: "user_by_email:{email}"}, `{"email":"a@b"}`,
			"key=user_by_email:a@b"},
		{"redis index without the property", replicator.View{Kind: "index", Key: "user_by_email:{email}"}, `{}`, ""},
		{"redis index of each element", replicator.View{Kind: "index", Key: "tag:{tags[]}", Member: "{row_key:uuid}:{n}"},
			`{"tags":["a","b","a"],"n":1.50}`,
			"key=tag:a member=71f0c4d2-2918-44cc-a2df-6f486e96e37c:1.50 | key=tag:b member=71f0c4d2-2918-44cc-a2df-6f486e96e37c:1.50"},
		{"key of an object", replicator.View{Kind: "index", Key: "x:{a}"}, `{"a":{}}`,
			"error: view v: key: {a}: an object can't be part of a key"},
		{"key of an empty text", replicator.View{Kind: "index", Key: "{a}"}, `{"a":""}`,
			"error: view v: key: the template's values give an empty string, which can't be a key or a member"},
		{"key of a UUID's text", replicator.View{Kind: "index", Key: "{a:hex}"},
			`{"a":"71F0C4D2-2918-44CC-A2DF-6F486E96E37C"}`, "key=71f0c4d2291844cca2df6f486e96e37c"},
		{"key of no UUID", replicator.View{Kind: "index", Key: "{a:uuid}"}, `{"a":"secret"}`,
			"error: view v: key: {a}: the text is not a UUID. The formats uuid, hex and base64 are only " +
				"for UUIDs and binary values. Remove the format"},
		{"key of a number's bytes", replicator.View{Kind: "index", Key: "{a:hex}"}, `{"a":1}`,
			"error: view v: key: {a}: the formats uuid, hex and base64 can't show a number. Remove the format"},

		{"beside what is not read", row("b", "a.c", "tags[1]"),
			`{"a":{"c":1,"d":{"unread":"X"}},"b":2,"tags":[{"unread":"X"},3]}`, "int64(2) int64(1) int64(3)"},
		{"what is not read", row("b", "a"), `{"a":{"unread":"an object of a class"},"b":2}`,
			"error: view v: a: it is an object of a class, which no view can hold"},
		{"into what is not read", row("a.b"), `{"a":{"unread":"X"}}`, "error: view v: a.b: it is X, which no view can hold"},
		{"an object that holds it", row("a"), `{"a":{"b":[{"unread":"X"}]}}`,
			"error: view v: a: it is X, which no view can hold"},
		{"elements of it", index("a[]"), `{"a":{"unread":"X"}}`,
			"error: view v: a[]: the value before [] is X, not a list"},
		{"each element", index("a[]"), `{"a":[1,{"unread":"X"}]}`, "error: view v: a[]: it is X, which no view can hold"},
		{"inside each element", index("a[].b"), `{"a":[{"b":1},{"unread":"X"}]}`,
			"error: view v: a[].b: it is X, which no view can hold"},
		{"expression over it", row("=a ?? 1"), `{"a":{"unread":"X"}}`,
			"error: view v: =a ?? 1: a: it is X, which no view can hold"},
		{"where over it", replicator.View{Kind: "row", Fields: fields("b"), Where: "a > 1"}, `{"a":{"unread":"X"},"b":1}`,
			"error: view v: where: a: it is X, which no view can hold"},
		{"key of it", replicator.View{Kind: "index", Key: "x:{a}"}, `{"a":{"unread":"X"}}`,
			"error: view v: key: a: it is X, which no view can hold"},

		{"counter", replicator.View{Kind: "counter", Fields: fields("country", "amount"), Sum: "amount"},
			`{"country":"no","amount":18446744073709551615}`, "string(no) uint64(18446744073709551615)"},
		{"counter of cells", replicator.View{Kind: "counter", Fields: fields("country", "=1")},
			`{"country":"no"}`, "string(no) int64(1)"},
		{"counter of cells by element", replicator.View{Kind: "counter", Fields: fields("tags[]", "")},
			`{"tags":["a","a","b"]}`, "string(a) int64(1) | string(b) int64(1)"},
		{"counter without an amount", replicator.View{Kind: "counter", Fields: fields("country", "amount"), Sum: "amount"},
			`{"country":"no"}`, ""},
		{"counter of a text", replicator.View{Kind: "counter", Fields: fields("country", "amount"), Sum: "amount"},
			`{"country":"no","amount":"secret"}`,
			"error: view v: sum: amount is a text, not a number"},
		{"counter of a list's sum", replicator.View{Kind: "counter", Fields: fields("country", "=sum(lines, .qty)"),
			Sum: "=sum(lines, .qty)"}, `{"country":"no","lines":[{"qty":2},{"qty":3}]}`,
			"string(no) int64(5)"},
		{"redis counter", replicator.View{Kind: "counter", Key: "n:{country}", Sum: "amount"},
			`{"country":"no","amount":-1.5}`, "key=n:no replicator.Number(-1.5)"},
		{"ranking", replicator.View{Kind: "ranking", Key: "top:{country}", Member: "{name}", Sum: "score",
			Fields: fields("score")}, `{"country":"no","name":"ada","score":9}`,
			"key=top:no member=ada int64(9)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cell := userCell(t)
			row := userRow(cell, tt.body)
			row.Names = []string{"note", "meta", "created_at", "labels"}
			row.Columns = []any{`{"a":1}`, replicator.RawJSON(`{"city":"Oslo"}`), "2026-01-02 03:04:05",
				`["a",7]`}
			e := mustCompile(t, userView(tt.view))
			for range 2 { // the second evaluation uses pooled memory
				values := e.Evaluate(cell, row)
				if len(values) != 1 || values[0].View != 0 {
					t.Fatalf("got %d values", len(values))
				}
				if got := show(values[0]); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

func TestACellFeedsItsViewsOnly(t *testing.T) {
	e := mustCompile(t,
		&replicator.View{Name: "companies", Kind: "row", From: from("cell", "companies"), Fields: fields("name")},
		&replicator.View{Name: "users", Kind: "row", From: from("cell", "users"), Fields: fields("name")},
		&replicator.View{Name: "favorites", Kind: "index", From: from("favorite", ""), Fields: fields("user_id")},
		&replicator.View{Name: "all", Kind: "document", From: from("cell", ""), Fields: fields("name", "$column_name")},
		&replicator.View{Name: "both", Kind: "row", From: append(from("cell", "users"), from("cell", "companies")...),
			Fields: fields("name")},
	)
	tests := []struct {
		table, column string
		want          []int
	}{
		{"cell", "users", []int{1, 3, 4}},
		{"cell", "companies", []int{0, 3, 4}},
		{"cell", "schools", []int{3}},
		{"favorite", "", []int{2}},
		{"unknown", "users", nil},
	}
	for _, tt := range tests {
		cell := replicator.Cell{Table: tt.table, Column: tt.column, Key: mustKey(t, int64(1), int64(2))}
		for _, row := range []*replicator.Row{nil, userRow(cell, `{"name":"x"}`)} {
			var got []int
			for _, v := range e.Evaluate(cell, row) {
				got = append(got, v.View)
				if row == nil && (v.Entries != nil || v.Err != nil) || row != nil && show(v) == "" {
					t.Errorf("%v: row %v gives %q", cell, row != nil, show(v))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v feeds %v, want %v", cell, got, tt.want)
			}
		}
	}
}

func TestColumnsAreTheFieldsOfATableWithoutABody(t *testing.T) {
	e := mustCompile(t,
		&replicator.View{Name: "counter", Kind: "counter", From: from("favorite", ""),
			Fields: fields("object_id", "cnt"), Sum: "cnt"},
		&replicator.View{Name: "who", Kind: "index", From: from("favorite", ""), Key: "who:{object_id}", Member: "{user_id}"},
		&replicator.View{Name: "expr", Kind: "index", From: from("favorite", ""),
			Fields: fields("=cnt * 2"), Where: "$cnt > 1"},
		&replicator.View{Name: "json", Kind: "index", From: from("favorite", ""), Fields: fields("meta.city")},
	)
	cell := replicator.Cell{Table: "favorite", Key: mustKey(t, int64(5), int64(6))}
	row := &replicator.Row{Cell: cell, Names: []string{"cnt", "meta"},
		Columns: []any{int64(3), replicator.RawJSON(`{"city":"Oslo"}`)}}
	want := []string{"int64(5) int64(3)", "key=who:5 member=6", "int64(6)", "string(Oslo)"}
	for i, v := range e.Evaluate(cell, row) {
		if got := show(v); got != want[i] {
			t.Errorf("view %d: got %s, want %s", i, got, want[i])
		}
	}
}

// A view that merges tables may name a column that only one of them has.
func TestAColumnOfAnotherTableIsMissing(t *testing.T) {
	feeds := slices.Concat(from("favorite", ""), from("cell", "users"))
	e := mustCompile(t,
		&replicator.View{Name: "merged", Kind: "row", From: feeds, Fields: fields("cnt", "comment", "=upper(comment)")},
		&replicator.View{Name: "where", Kind: "row", From: feeds, Fields: fields("cnt"), Where: "comment == 'x'"},
		&replicator.View{Name: "alone", Kind: "row", From: from("favorite", ""), Fields: fields("comment")},
	)
	cell := replicator.Cell{Table: "favorite", Key: mustKey(t, int64(5), int64(6))}
	row := &replicator.Row{Cell: cell, Names: []string{"cnt"}, Columns: []any{int64(3)}}
	want := []string{"int64(3) <nil>(<nil>) <nil>(<nil>)", "", "error: view alone: comment: the row has no column comment"}
	for i, v := range e.Evaluate(cell, row) {
		if got := show(v); got != want[i] {
			t.Errorf("view %d: got %s, want %s", i, got, want[i])
		}
	}
}

func TestABadBodyIsAnErrorOfTheViewsThatNeedIt(t *testing.T) {
	e := mustCompile(t,
		&replicator.View{Name: "body", Kind: "index", From: from("cell", "users"), Fields: fields("email")},
		&replicator.View{Name: "where", Kind: "row", From: from("cell", "users"),
			Fields: fields("$row_key"), Where: "email != nil"},
		&replicator.View{Name: "columns", Kind: "index", From: from("cell", "users"), Fields: fields("$column_name")},
	)
	cell := userCell(t)
	rendered := userRow(cell, "binary")
	rendered.Text = func([]byte) ([]byte, error) { return []byte(`{"email":"x"}`), nil }
	unrendered := userRow(cell, "binary")
	unrendered.Text = func([]byte) ([]byte, error) { return nil, errors.New("cut short") }
	broken := userRow(cell, "{}")
	broken.Err = errors.New("its version is negative")
	null := userRow(cell, "")
	null.Body = nil
	tests := []struct {
		name string
		row  *replicator.Row
		want [3]string
	}{
		{"not JSON", userRow(cell, "secret"), [3]string{"error: view body: the body can't be decoded: bad JSON",
			"error: view where: the body can't be decoded: bad JSON", "string(users)"}},
		{"NULL", null, [3]string{"", "", "string(users)"}},
		{"rendered", rendered,
			[3]string{"string(x)", "[]uint8([113 240 196 210 41 24 68 204 162 223 111 72 110 150 227 124])", "string(users)"}},
		{"not rendered", unrendered, [3]string{"error: view body: the body can't be rendered: cut short",
			"error: view where: the body can't be rendered: cut short", "string(users)"}},
		{"row at fault", broken, [3]string{"error: view body: its version is negative",
			"error: view where: its version is negative", "error: view columns: its version is negative"}},
	}
	for _, tt := range tests {
		for i, v := range e.Evaluate(cell, tt.row) {
			if got := show(v); got != tt.want[i] {
				t.Errorf("%s: got %s, want %s", tt.name, got, tt.want[i])
			}
		}
	}
}

func TestANullBodyHasNoProperties(t *testing.T) {
	cell := userCell(t)
	row := userRow(cell, "")
	row.Body = nil
	row.Text = func([]byte) ([]byte, error) { return nil, errors.New("a NULL was rendered") }
	for _, test := range []struct {
		view replicator.View
		want string
	}{
		{replicator.View{Kind: "row", Fields: fields("email", "$column_name", "a.b", "tags[]")},
			"<nil>(<nil>) string(users) <nil>(<nil>) <nil>(<nil>)"},
		{replicator.View{Kind: "row", Fields: fields("$column_name"), Where: "email != 'x'"}, ""},
		{replicator.View{Kind: "row", Fields: fields("$column_name"), Where: "email == nil"}, "string(users)"},
		{replicator.View{Kind: "row", Fields: fields("=email ?? 'none'", "=lower(email)")}, "string(none) <nil>(<nil>)"},
		{replicator.View{Kind: "index", Fields: fields("$column_name", "email")}, ""},
		{replicator.View{Kind: "index", Fields: fields("tags[]")}, ""},
		{replicator.View{Kind: "index", Fields: fields("$column_name")}, "string(users)"},
	} {
		v := userView(test.view)
		e := mustCompile(t, v)
		if got := show(e.Evaluate(cell, row)[0]); got != test.want {
			t.Errorf("%+v: got %s, want %s", v, got, test.want)
		}
		if got := show(e.Evaluate(cell, userRow(cell, "{}"))[0]); got != test.want {
			t.Errorf("%+v of an empty object: got %s, want %s", v, got, test.want)
		}
	}
}

// A dead letter's reason contains the error. The dead letter outlives the rebuild, so the error must name the view and
// not its shadow.
func TestWhatIsWrongInAShadowNamesTheViewThatItStandsInFor(t *testing.T) {
	e := mustCompile(t, &replicator.View{Name: "v" + replicator.ShadowSuffix, Shadows: "v", Kind: "index",
		From: from("cell", "users"), Fields: fields("tags")})
	cell := userCell(t)
	broken := userRow(cell, "{}")
	broken.Err = errors.New("its version is negative")
	for what, row := range map[string]*replicator.Row{
		"a list": userRow(cell, `{"tags":[1]}`), "a body": userRow(cell, "{"), "a row": broken,
	} {
		for _, v := range e.Evaluate(cell, row) {
			if v.Err == nil || !strings.HasPrefix(v.Err.Error(), "view v: ") {
				t.Errorf("%s: %v", what, v.Err)
			}
		}
	}
}

func TestListsThatCombineToTooManyEntriesAreAnError(t *testing.T) {
	list := "[" + strings.Repeat("1,", 100) + "1]"
	e := mustCompile(t, userView(replicator.View{Kind: "index", Fields: fields("a[]", "b[]")}))
	v := e.Evaluate(userCell(t), userRow(userCell(t), `{"a":`+list+`,"b":`+list+`}`))[0]
	if got, want := show(v), "error: view v: the cell's lists combine to more than 10000 entries"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestVersionColumnIsTheRowsOwnWhereItCarriesOne(t *testing.T) {
	e := mustCompile(t, userView(replicator.View{Kind: "row", Fields: fields("$ref_key")}))
	row := userRow(userCell(t), `{}`)
	row.Names, row.Columns = []string{"ref_key"}, []any{"2026-01-02 03:04:05"}
	if got := show(e.Evaluate(row.Cell, row)[0]); got != "string(2026-01-02 03:04:05)" {
		t.Errorf("got %s", got)
	}
}
