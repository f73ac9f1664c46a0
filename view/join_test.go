package view

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"replicator"
)

// shopTables are orders, customers, companies and items. Only customers have bodies.
func shopTables() []replicator.Table {
	return []replicator.Table{
		{Name: "orders", Table: "orders", Key: []string{"id"}},
		{Name: "customers", Table: "customers", Key: []string{"id"}, Body: "body", Codec: "json"},
		{Name: "companies", Table: "companies", Key: []string{"id"}},
		{Name: "items", Table: "items", Key: []string{"order_id", "line"}},
		{Name: "notes", Table: "notes", Key: []string{"id"}, Body: "body", Codec: "json"},
	}
}

func on(conditions ...string) (list []replicator.JoinOn) { // COLUMN, FROM, PATH
	for c := range slices.Chunk(conditions, 3) {
		list = append(list, replicator.JoinOn{Column: c[0], From: c[1], Path: c[2]})
	}
	return list
}

// orderView completes v to a view of orders, joined with the customer, the customer's company and the items.
func orderView(v replicator.View) *replicator.View {
	v.Name, v.From = "v", from("orders", "")
	v.Joins = []replicator.Join{
		{Name: "company", Table: "companies", On: on("id", "customer", "company_id")},
		{Name: "customer", Table: "customers", On: on("id", "", "customer_id")},
		{Name: "items", Table: "items", On: on("order_id", "", "id"), Many: true, Order: []string{"line"},
			Fields: []replicator.Field{{Name: "sku", Path: "sku"}, {Name: "n", Path: "qty"}}},
		{Name: "dear", Table: "items", On: on("order_id", "", "id"), Many: true, Where: "qty > 1", Limit: 1},
		{Name: "notes", Table: "notes", On: on("order_id", "", "id"), Many: true},
	}
	return &v
}

func plainRow(t *testing.T, table string, key []any, columns ...any) *replicator.Row {
	r := &replicator.Row{Cell: replicator.Cell{Table: table, Key: mustKey(t, key...)}}
	for c := range slices.Chunk(columns, 2) {
		if name := c[0].(string); name == "body" {
			r.Body = []byte(c[1].(string))
		} else {
			r.Names, r.Columns = append(r.Names, name), append(r.Columns, c[1])
		}
	}
	return r
}

// joinedOrder returns order 7 with joined rows. rows has these by the names of the view's joins.
func joinedOrder(t *testing.T, v *replicator.View, rows map[string][]*replicator.Row) *replicator.Row {
	r := plainRow(t, "orders", []any{int64(7)}, "customer_id", int64(3), "status", "paid")
	r.Joined = map[string][]*replicator.Row{}
	lookups, names := v.Lookups()
	for i, name := range names {
		if found := rows[name]; len(found) > 0 {
			r.Joined[lookups[i].ID] = found
		}
	}
	return r
}

func shop(t *testing.T) map[string][]*replicator.Row {
	items := []*replicator.Row{
		plainRow(t, "items", []any{int64(7), int64(1)}, "order_id", int64(7), "line", int64(1), "sku", "a", "qty", int64(1),
			"price", replicator.Number("2.50"), "tags", replicator.RawJSON(`["x","y"]`)),
		plainRow(t, "items", []any{int64(7), int64(2)}, "order_id", int64(7), "line", int64(2), "sku", "b", "qty", int64(4),
			"price", replicator.Number("0.10"), "tags", nil),
		plainRow(t, "items", []any{int64(7), int64(3)}, "order_id", int64(7), "line", int64(3), "sku", nil, "qty", int64(5),
			"price", replicator.Number("1.00"), "tags", nil),
	}
	return map[string][]*replicator.Row{
		"customer": {plainRow(t, "customers", []any{int64(3)}, "company_id", int64(9),
			"body", `{"name":"ada","address":{"city":"Oslo"},"tags":["p","q"]}`)},
		"company": {plainRow(t, "companies", []any{int64(9)}, "name", "acme", "vip", nil)},
		"items":   items,
		"dear":    items,
		"notes":   {plainRow(t, "notes", []any{int64(1)}, "order_id", int64(7), "body", `{"text":"hi","seen":null}`)},
	}
}

func TestPathsLeadIntoJoinedRows(t *testing.T) {
	row := func(paths ...string) replicator.View { return replicator.View{Kind: "row", Fields: fields(paths...)} }
	index := func(paths ...string) replicator.View { return replicator.View{Kind: "index", Fields: fields(paths...)} }
	for _, test := range []struct {
		name       string
		view       replicator.View
		want, none string // the entry with joined rows, and without
	}{
		{"a property and a column", row("status", "customer.name", "customer.address.city", "customer.$company_id", "company.name"),
			"string(paid) string(ada) string(Oslo) int64(9) string(acme)",
			"string(paid) <nil>(<nil>) <nil>(<nil>) <nil>(<nil>) <nil>(<nil>)"},
		{"a key column", row("company.id", "customer.$id", "items[0].n"), "int64(9) int64(3) int64(1)",
			"<nil>(<nil>) <nil>(<nil>) <nil>(<nil>)"},
		{"NULL", row("company.vip"), "<nil>(<nil>)", "<nil>(<nil>)"},
		{"a whole row", row("company", "customer"),
			"replicator.Object([{name acme}]) replicator.Object([{address [{city Oslo}]} {name ada} {tags [p q]}])",
			"<nil>(<nil>) <nil>(<nil>)"},
		{"a list", row("items"),
			"[]interface {}([[{n 1} {sku a}] [{n 4} {sku b}] [{n 5}]])", "[]interface {}([])"},
		{"a list of whole rows that are chosen", row("dear"),
			"[]interface {}([[{line 2} {order_id 7} {price 0.10} {qty 4} {sku b}]])", "[]interface {}([])"},
		{"a list of whole bodies", row("notes"), "[]interface {}([[{seen <nil>} {text hi}]])", "[]interface {}([])"},
		{"each of a list", row("items[].sku", "items[1].sku"), "[]interface {}([a b]) string(b)",
			"[]interface {}([]) <nil>(<nil>)"},
		{"expressions", row("=sum(items, .n)", "=len(items)", "=customer.name + '/' + status", "=customer.name ?? 'nobody'",
			"=map(items, .sku ?? '-')", "=customer.$company_id + 1"),
			"int64(10) int64(3) string(ada/paid) string(ada) []interface {}([a b -]) int64(10)",
			"int64(0) int64(0) <nil>(<nil>) string(nobody) []interface {}([]) <nil>(<nil>)"},
		{"an amount", replicator.View{Kind: "counter", Fields: fields("customer.name", "=sum(dear, .qty * .price)"),
			Sum: "=sum(dear, .qty * .price)"}, "string(ada) float64(0.4)", ""},
		{"an index", index("customer.name", "status"), "string(ada) string(paid)", ""},
		{"an index of a list", index("items[].sku", "items[].n"), "string(a) int64(1) | string(b) int64(4)", ""},
		{"an index of a list in a row", index("customer.tags[]", "items[].sku"),
			"string(p) string(a) | string(p) string(b) | string(q) string(a) | string(q) string(b)", ""},
		{"one list's properties go together", index("=1", "customer.tags[]", "customer.tags[]"),
			"int64(1) string(p) string(p) | int64(1) string(q) string(q)", ""},
		{"a key", replicator.View{Kind: "index", Key: "by:{customer.name}:{items[].sku}", Member: "{id}"},
			"key=by:ada:a member=7 | key=by:ada:b member=7", ""},
		{"where", replicator.View{Kind: "row", Fields: fields("status"), Where: "company.name == 'acme' && len(items) > 2"},
			"string(paid)", ""},
	} {
		v := orderView(test.view)
		e, err := Compile([]*replicator.View{v}, shopTables(), plainCodecs)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, c := range []struct {
			rows map[string][]*replicator.Row
			want string
		}{{shop(t), test.want}, {nil, test.none}} {
			row := joinedOrder(t, v, c.rows)
			for range 2 { // the second evaluation reuses the scope
				if got := show(e.Evaluate(row.Cell, row)[0]); got != c.want {
					t.Errorf("%s: got  %s\nwant %s", test.name, got, c.want)
				}
			}
		}
	}
}

func TestAJoinedRowWithANullBodyHasNoProperties(t *testing.T) {
	v := orderView(replicator.View{Kind: "row", Fields: fields("status", "customer.name", "customer.$company_id", "customer")})
	e, err := Compile([]*replicator.View{v}, shopTables(), plainCodecs)
	if err != nil {
		t.Fatal(err)
	}
	rows := shop(t)
	rows["customer"][0].Body = nil
	row := joinedOrder(t, v, rows)
	const want = "string(paid) <nil>(<nil>) int64(9) replicator.Object([])"
	if got := show(e.Evaluate(row.Cell, row)[0]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAJoinedRowThatCannotBeReadIsNamed(t *testing.T) {
	v := orderView(replicator.View{Kind: "row", Fields: fields("status", "customer.name", "=len(items)", "=len(dear)")})
	e, err := Compile([]*replicator.View{v}, shopTables(), plainCodecs)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(map[string][]*replicator.Row)
		want  string
	}{
		"a body": {func(rows map[string][]*replicator.Row) { rows["customer"][0].Body = []byte("{secret") },
			"error: view v: join customer: row customers 3: the body can't be decoded: "},
		"a row": {func(rows map[string][]*replicator.Row) { rows["items"][1].Err = errors.New("it is broken") },
			"error: view v: join items: row items 7:2: it is broken"},
		"a condition": {func(rows map[string][]*replicator.Row) { rows["dear"][0].Columns[3] = "secret" },
			"error: view v: join dear: row items 7:1: where: "},
	} {
		rows := shop(t)
		test.spoil(rows)
		row := joinedOrder(t, v, rows)
		if got := show(e.Evaluate(row.Cell, row)[0]); !strings.HasPrefix(got, test.want) || strings.Contains(got, "secret") {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	row := joinedOrder(t, v, nil)
	row.Joined = nil
	if got := show(e.Evaluate(row.Cell, row)[0]); got != "error: view v: the joined rows were not read" {
		t.Errorf("a row that was not joined: %s", got)
	}
	if got := e.Evaluate(row.Cell, nil)[0]; got.Err != nil || len(got.Entries) > 0 {
		t.Errorf("a cell that is gone: %v", got)
	}
}

func TestWhatCanNotBeJoinedIsRefused(t *testing.T) {
	row := func(path string) *replicator.View {
		return orderView(replicator.View{Kind: "row", Fields: fields(path)})
	}
	change := func(f func(*replicator.View)) *replicator.View {
		v := row("status")
		f(v)
		return v
	}
	for want, v := range map[string]*replicator.View{
		"items is a list. Write items[].sku for every row, or items[0].sku for the first":        row("items.sku"),
		"the join items has no field qty. Add it to the join's fields":                           row("items[].qty"),
		"the join items has no field skv (did you mean sku?). Add it to the join's fields":       row("items[].skv"),
		"customer is one row, not a list. Name a field, as in customer.name, or set many = true": row("customer[].name"),
		"Name a property of the body, without $":                                                 row("customer.$body"),
		"column id of table companies is a plain value":                                          row("company.id.x"),
		"there is no table gone": change(func(v *replicator.View) { v.Joins[0].Table = "gone" }),
		"the joins refer to each other in a circle, or to a join that does not exist": change(func(v *replicator.View) {
			v.Joins[1].On[0].From = "company"
		}),
		"from: names several tables. A view with joins can name only one": change(func(v *replicator.View) {
			v.From = append(v.From, from("companies", "")...)
		}),
		"a changelog holds rows as they are, without joins": change(func(v *replicator.View) { v.Kind, v.Fields = "changelog", nil }),
		"join.dear.where: ":        change(func(v *replicator.View) { v.Joins[3].Where = "qty = 1" }),
		"join.items.fields: sku: ": change(func(v *replicator.View) { v.Joins[2].Fields[0].Path = "=nothing()" }),
		"not a key column of table orders": orderView(replicator.View{Kind: "hash", Key: "o:{id}:{customer.$id}",
			Fields: fields("status")}),
	} {
		if _, err := Compile([]*replicator.View{v}, shopTables(), plainCodecs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestColumnsThatJoinsNeed(t *testing.T) {
	views := []*replicator.View{orderView(replicator.View{Kind: "row",
		Fields: fields("status", "customer.name", "company.name", "items", "=len(dear)")})}
	for table, want := range map[string][]string{
		"orders": {"customer_id", "status"}, "customers": {"company_id"}, "companies": {"name"}, "items": {"*"},
		"notes": {"order_id"},
	} {
		got, optional, err := Columns(views, shopTables(), table)
		if err != nil || !slices.Equal(got, want) || len(optional) > 0 {
			t.Errorf("%s: got %v, %v, %v; want %v", table, got, optional, err, want)
		}
	}
	views[0].Joins = slices.Delete(views[0].Joins, 3, 4)
	views[0].Fields = views[0].Fields[:4]
	if got, _, err := Columns(views, shopTables(), "items"); err != nil || !slices.Equal(got, []string{"qty", "sku"}) {
		t.Errorf("of named fields alone: %v, %v", got, err)
	}
	self := &replicator.View{Name: "s", Kind: "row", From: from("orders", ""), Fields: fields("status", "parent.parent", "parent.note"),
		Joins: []replicator.Join{{Name: "parent", Table: "orders", On: on("id", "", "parent_id")}}}
	got, _, err := Columns([]*replicator.View{self}, shopTables(), "orders")
	if want := []string{"note", "parent", "parent_id", "status"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("of a table that is joined with itself: %v, %v, want %v", got, err, want)
	}
}

func TestJoinsAreEvaluatedAtOnceByMany(t *testing.T) {
	v := orderView(replicator.View{Kind: "row", Fields: fields("customer.name", "items", "=sum(items, .n)", "notes")})
	e, err := Compile([]*replicator.View{v}, shopTables(), plainCodecs)
	if err != nil {
		t.Fatal(err)
	}
	full, bare := joinedOrder(t, v, shop(t)), joinedOrder(t, v, nil)
	wantFull, wantBare := show(e.Evaluate(full.Cell, full)[0]), show(e.Evaluate(bare.Cell, bare)[0])
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				if got := show(e.Evaluate(full.Cell, full)[0]); got != wantFull {
					t.Errorf("got %s, want %s", got, wantFull)
				}
				if got := show(e.Evaluate(bare.Cell, bare)[0]); got != wantBare {
					t.Errorf("got %s, want %s", got, wantBare)
				}
			}
		})
	}
	all.Wait()
}

func TestViewsThatRunTogetherShareJoins(t *testing.T) {
	decoded := 0
	codecs := plainCodecs
	codecs.Body = func(_ string, names []string) (Decoder, error) {
		return countingDecoder{plainDecoder(names), &decoded}, nil
	}
	var views []*replicator.View
	for _, path := range []string{"customer.name", "customer.address.city", "=len(items)", "customer.name"} {
		v := orderView(replicator.View{Kind: "row", Fields: fields(path, "customer.tags[]")})
		v.Name += path
		views = append(views, v)
	}
	e, err := Compile(views, shopTables(), codecs)
	if err != nil {
		t.Fatal(err)
	}
	row := joinedOrder(t, views[0], shop(t))
	for _, v := range e.Evaluate(row.Cell, row) {
		if v.Err != nil {
			t.Error(v.Err)
		}
	}
	if decoded != 1 {
		t.Errorf("the customer's body is decoded %d times", decoded)
	}
}

type countingDecoder struct {
	Decoder
	n *int
}

func (d countingDecoder) Decode(body []byte, values []any) error {
	*d.n++
	return d.Decoder.Decode(body, values)
}
