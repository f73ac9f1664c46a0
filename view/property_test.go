package view

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"replicator"
)

// The model treats paths as text. To combine lists, it replaces each [] with an index, one list after another.

var errModel = errors.New("no entry can hold this")

// modelGet follows a path without [], such as a.b[2].c.
func modelGet(doc any, path string) any {
	path = strings.ReplaceAll(path, "[", ".[")
	for _, name := range strings.Split(path, ".") {
		if strings.HasPrefix(name, "[") {
			var i int
			_, _ = fmt.Sscanf(name, "[%d]", &i)
			list, ok := doc.([]any)
			if !ok || i >= len(list) {
				return nil
			}
			doc = list[i]
			continue
		}
		m, ok := doc.(replicator.Object)
		if !ok {
			return nil
		}
		doc = m.Get(name)
	}
	return doc
}

func modelList(doc any, path string) ([]any, error) {
	switch v := modelGet(doc, path).(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	}
	return nil, errModel
}

// modelIndex returns the entries of an index, each as text.
func modelIndex(doc any, paths []string) ([]string, error) {
	for _, p := range paths { // the evaluator, too, reads lists outside of other lists first
		if before, _, ok := strings.Cut(p, "[]"); ok {
			if _, err := modelList(doc, before); err != nil {
				return nil, err
			}
		}
	}
	var entries []string
	err := modelExpand(doc, paths, &entries)
	return entries, err
}

func modelExpand(doc any, paths []string, entries *[]string) error {
	for _, p := range paths {
		before, _, ok := strings.Cut(p, "[]")
		if !ok {
			continue
		}
		list, err := modelList(doc, before)
		if err != nil {
			return err
		}
		for i := range list {
			var next []string
			for _, q := range paths {
				if strings.HasPrefix(q, before+"[]") { // the sign tells this index from an index of the view's own path
					q = fmt.Sprintf("%s[+%d]%s", before, i, strings.TrimPrefix(q, before+"[]"))
				}
				next = append(next, q)
			}
			if err := modelExpand(doc, next, entries); err != nil {
				return err
			}
		}
		return nil
	}
	var e replicator.Entry
	for _, p := range paths {
		v := modelGet(doc, p)
		if v == nil {
			return nil
		}
		if !scalar(v) {
			return errModel
		}
		e.Fields = append(e.Fields, v)
	}
	text := show(replicator.Value{Entries: []replicator.Entry{e}})
	for _, have := range *entries {
		if have == text {
			return nil
		}
	}
	*entries = append(*entries, text)
	return nil
}

// modelAll returns what a path with [] leads to in a row view: a list of everything that it finds.
func modelAll(doc any, path string) (any, error) {
	before, after, ok := strings.Cut(path, "[]")
	if !ok {
		return modelGet(doc, path), nil
	}
	list, err := modelList(doc, before)
	if list == nil || err != nil {
		return nil, err
	}
	all := []any{}
	for i := range list {
		v, err := modelAll(doc, fmt.Sprintf("%s[%d]%s", before, i, after))
		switch inner, isList := v.([]any); {
		case err != nil:
			return nil, err
		case isList && strings.Contains(after, "[]"):
			all = append(all, inner...)
		case v != nil:
			all = append(all, v)
		}
	}
	return all, nil
}

// Random documents mostly have the same shape, so that random paths usually find something: a and b are scalars, l and
// m are lists, and o is an object.

func randomPath(r *rand.Rand) string {
	name := string("ablmo"[r.IntN(5)])
	p := name
	for range 4 {
		switch {
		case r.IntN(12) == 0:
			return p
		case name == "l" || name == "m":
			if p += "[]"; r.IntN(6) == 0 {
				p = fmt.Sprintf("%s[%d]", p[:len(p)-2], r.IntN(2))
			}
			if name = ""; r.IntN(3) == 0 {
				return p
			}
		case name == "o" || name == "":
			name = string("ablmo"[r.IntN(5)])
			p += "." + name
		default:
			if r.IntN(12) > 0 {
				return p
			}
			p += ".a"
		}
	}
	return p
}

// randomDoc returns a random value as JSON. Its shape depends on name, and it nests at most 5 levels deep.
func randomDoc(r *rand.Rand, name string, depth int) string {
	if r.IntN(30) == 0 {
		name = string("ablmo"[r.IntN(5)])
	}
	switch {
	case depth == 5:
	case name == "o":
		var members []string
		for _, name := range []string{"a", "b", "l", "m", "o"} {
			if r.IntN(5) > 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, randomDoc(r, name, depth+1)))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	case name == "l" || name == "m":
		element := string("ao"[r.IntN(2)])
		var elements []string
		for range r.IntN(4) {
			elements = append(elements, randomDoc(r, element, depth+1))
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	return []string{"null", "1", "2", `"x"`, `"y"`, "1.5", "true"}[r.IntN(7)]
}

func TestEntriesAreThoseOfThePlainModel(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	failed, filled := 0, 0
	for range 8_000 {
		var paths []string
		for range 1 + r.IntN(3) {
			paths = append(paths, randomPath(r))
		}
		body := randomDoc(r, "o", 0)
		doc, err := plainJSON([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := doc.(replicator.Object); !ok {
			continue
		}
		e := mustCompile(t, userView(replicator.View{Kind: "index", Fields: fields(paths...)}),
			userView(replicator.View{Kind: "row", Fields: fields(paths[0])}))
		values := e.Evaluate(userCell(t), userRow(userCell(t), body))

		entries, err := modelIndex(doc, paths)
		if (err != nil) != (values[0].Err != nil) || err == nil && show(values[0]) != strings.Join(entries, " | ") {
			t.Fatalf("seed %d: index of %v over %s:\ngot  %s\nwant %v, %v", seed, paths, body, show(values[0]), entries, err)
		}
		all, err := modelAll(doc, paths[0])
		want := show(replicator.Value{Entries: []replicator.Entry{{Fields: []any{all}}}})
		if (err != nil) != (values[1].Err != nil) || err == nil && show(values[1]) != want {
			t.Fatalf("seed %d: row of %s over %s:\ngot  %s\nwant %s, %v", seed, paths[0], body, show(values[1]), want, err)
		}
		if values[0].Err != nil {
			failed++
		} else if len(entries) > 1 {
			filled++
		}
	}
	if failed < 80 || filled < 80 {
		t.Errorf("seed %d: only %d errors and %d lists of entries: the test tests little", seed, failed, filled)
	}
}

func TestEvaluationsDoNotDisturbEachOther(t *testing.T) {
	e := mustCompile(t, seedViews()...)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				name := fmt.Sprintf("user-%d-%d", g, i)
				cell := userCell(t)
				values := e.Evaluate(cell, userRow(cell, fmt.Sprintf(`{"username":%q,"email":"x","activate":true}`, name)))
				if got, want := show(values[1]), "string("+name+")"; got != want {
					t.Errorf("got %s, want %s", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// seedViews returns the seven views of the jogchat example's users cells.
func seedViews() []*replicator.View {
	var views []*replicator.View
	for _, name := range []string{"id", "username", "email", "phone", "password", "activate"} {
		views = append(views, &replicator.View{Name: "index_users_" + name, Kind: "index",
			From: from("cell", "users"), Fields: fields(name)})
	}
	return append(views, &replicator.View{Name: "users", Kind: "row", From: from("cell", "users"),
		Fields: fields("username", "email", "phone", "password", "activate")})
}

// fixedDecoder returns the same values for every body, so a benchmark with it measures only the evaluation.
type fixedDecoder []any

func (d fixedDecoder) Decode(_ []byte, values []any) error {
	copy(values, d)
	return nil
}

// The number of allocations does not depend on the machine. A change that reduces it should lower the limit here.
func TestAContributionAllocatesNoMoreThanItDid(t *testing.T) {
	views := []*replicator.View{{Name: "v", Kind: "index", From: from("cell", "users"),
		Key: "user_by_email:{email}:{username}", Member: "{row_key}"}}
	codecs := Codecs{Body: func(string, []string) (Decoder, error) {
		return fixedDecoder{"ada:lovelace@example.com", "ada"}, nil
	}}
	e, err := Compile(views, testTables(), codecs)
	if err != nil {
		t.Fatal(err)
	}
	cell := userCell(t)
	row := userRow(cell, "{}")
	// The allocations are the texts of key and member, and the key's value with its bytes. We take the minimum of
	// several runs, because a slab may be used up and the pool may be empty. Under the race detector, a pool drops
	// every fourth value.
	const most = 4
	n := math.Inf(1)
	for range slabSize / 2 {
		n = min(n, testing.AllocsPerRun(1, func() { e.Evaluate(cell, row) }))
	}
	if n > most {
		t.Errorf("%v allocations, at most %d so far", n, most)
	}
}

// Contributions share allocations, so a later contribution must never overwrite an earlier one.
func TestContributionsStayAsTheyWere(t *testing.T) {
	codecs := Codecs{Body: func(string, []string) (Decoder, error) { return fixedDecoder{"ada", "ada@example.com"}, nil }}
	e, err := Compile([]*replicator.View{{Name: "v", Kind: "row", From: from("cell", "users"),
		Fields: fields("$row_key", "username", "email")}}, testTables(), codecs)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]replicator.Value
	for i := range 5 * slabSize {
		key, err := replicator.MakeKey([]byte{byte(i >> 8), byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		cell := userCell(t)
		cell.Key = key
		all = append(all, e.Evaluate(cell, userRow(cell, "{}")))
	}
	for i, values := range all {
		want := []any{[]byte{byte(i >> 8), byte(i)}, "ada", "ada@example.com"}
		if len(values) != 1 || len(values[0].Entries) != 1 || !reflect.DeepEqual(values[0].Entries[0].Fields, want) {
			t.Fatalf("contribution %d: %v", i, values)
		}
	}
}

// A slab keeps its allocation alive, and so the contributions in it. A large body must not stay in memory because of
// that.
func TestALargeContributionIsNotKeptAlive(t *testing.T) {
	for _, test := range []struct {
		name, body, email string
		kept              bool
	}{
		{"small", "{}", "ada@example.com", true},
		{"large body", strings.Repeat(" ", 8<<10) + "{}", "ada@example.com", false},
		{"large value of a small body", "{}", strings.Repeat("a", 8<<10), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			codecs := Codecs{Body: func(string, []string) (Decoder, error) { return fixedDecoder{test.email}, nil }}
			e, err := Compile([]*replicator.View{{Name: "v", Kind: "row", From: from("cell", "users"),
				Fields: fields("email")}}, testTables(), codecs)
			if err != nil {
				t.Fatal(err)
			}
			cell, s := userCell(t), &scope{}
			values := s.values(e.tables[cell.Table].columns[cell.Column], cell, userRow(cell, test.body))
			if values[0].Err != nil || len(values[0].Entries) != 1 {
				t.Fatalf("%v", values)
			}
			if kept := s.memory.values.size > 0; kept != test.kept {
				t.Errorf("the memory is kept: %t", kept)
			}
		})
	}
}

func BenchmarkEvaluate(b *testing.B) {
	user := fixedDecoder{"71f0c4d2-2918-44cc-a2df-6f486e96e37c", "ada", "ada@example.com",
		int64(5551234567), "$2b$12$KIX", true}
	benchmarks := []struct {
		name  string
		views []*replicator.View
	}{
		{"seed", seedViews()},
		{"where", []*replicator.View{{Name: "v", Kind: "row", From: from("cell", "users"), Fields: fields("username"),
			Where: "activate == true"}}},
		{"expression", []*replicator.View{{Name: "v", Kind: "row", From: from("cell", "users"),
			Fields: fields("=lower(email)")}}},
		{"template", []*replicator.View{{Name: "v", Kind: "index", From: from("cell", "users"),
			Key: "user_by_email:{email}", Member: "{row_key}"}}},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			codecs := Codecs{Body: func(_ string, names []string) (Decoder, error) {
				list := make(fixedDecoder, len(names))
				for i, name := range names {
					list[i] = user[map[string]int{"id": 0, "username": 1, "email": 2, "phone": 3, "password": 4, "activate": 5}[name]]
				}
				return list, nil
			}}
			e, err := Compile(bb.views, testTables(), codecs)
			if err != nil {
				b.Fatal(err)
			}
			cell := userCell(b)
			row := userRow(cell, "{}")
			b.ReportAllocs()
			for b.Loop() {
				if v := e.Evaluate(cell, row); len(v) != len(bb.views) || v[0].Err != nil {
					b.Fatal("wrong values")
				}
			}
		})
	}
}
