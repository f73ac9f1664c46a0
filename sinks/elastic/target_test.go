package elastic_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
)

// bench is an open target of one view, in a cluster.
type bench struct {
	*cluster
	view   *replicator.View
	sink   *elastic.Sink
	target replicator.Target
}

// newBench opens a view of the cells users, or of the cells given by from.
func newBench(t *testing.T, mapping string, from ...string) *bench {
	t.Helper()
	if from == nil {
		from = []string{"users"}
	}
	var feeds []replicator.Feed
	for _, column := range from {
		feeds = append(feeds, replicator.Feed{Table: "cell", Column: column})
	}
	b := &bench{cluster: newCluster(t, servertest.Elasticsearch(t)), view: view(servertest.Name(), feeds, "name", "n")}
	setMapping(b.view, mapping)
	b.sink = newSink(t, b.url)
	b.open()
	t.Cleanup(func() {
		b.drop(indexOf(b.view))
		if err := b.sink.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) open() {
	b.t.Helper()
	target, err := b.sink.Open(b.t.Context(), "", []*replicator.View{b.view})
	if err != nil {
		b.t.Fatal(err)
	}
	b.target = target
}

// object returns an object with one member.
func object(name string, value any) replicator.Object {
	return replicator.ObjectOf(map[string]any{name: value})
}

func cellOf(t testing.TB, column string, n int64) replicator.Cell {
	t.Helper()
	key, err := replicator.MakeKey(n)
	if err != nil {
		t.Fatal(err)
	}
	return replicator.Cell{Table: "cell", Column: column, Key: key}
}

// op returns an op that sets a cell to the fields, or to nothing. Its version equals its order.
func op(c replicator.Cell, order int64, fields ...any) replicator.Op {
	o := replicator.Op{Cell: c, Version: order, Order: order, Values: []replicator.Value{{}}}
	if fields != nil {
		o.Values[0].Entries = []replicator.Entry{{Fields: fields}}
	}
	return o
}

// reset returns a re-read of a cell that found the fields, or no row.
func reset(c replicator.Cell, version, asOf int64, fields ...any) replicator.Op {
	o := op(c, version, fields...)
	o.Order, o.AsOf = 0, asOf
	return o
}

func (b *bench) apply(ops ...replicator.Op) replicator.Applied {
	b.t.Helper()
	applied, err := b.target.Apply(b.t.Context(), ops)
	if err != nil {
		b.t.Fatal(err)
	}
	return applied
}

// source returns the unchanged source of a document that the alias shows, without the state.
func (b *bench) source(id string) string {
	b.t.Helper()
	text := string(b.search(indexOf(b.view))[id])
	i := strings.Index(text, `"_replicator"`)
	if i < 0 {
		return text
	}
	return strings.TrimSuffix(text[:i], ",")
}

func (b *bench) shows(id, want string) {
	b.t.Helper()
	if got := b.source(id); got != want {
		b.t.Errorf("document %s is %s, and not %s", id, got, want)
	}
}

const numbers = `[9007199254740993,-9223372036854775808,18446744073709551615,0.10000000000000000000000000000000001,12345678901234567890123.00]`

func exact() []any {
	return []any{int64(1<<53 + 1), int64(-1 << 63), uint64(1<<64 - 1),
		replicator.Number("0.10000000000000000000000000000000001"),
		replicator.Number("12345678901234567890123.00")}
}

func TestNumbersArriveExactly(t *testing.T) {
	const unindexed = `{"dynamic": false}`
	t.Run("written once, then again because only the look is newer", func(t *testing.T) {
		b := newBench(t, unindexed)
		c := cellOf(t, "users", 1)
		b.apply(op(c, 50, []byte{0xab, 1}, exact()))
		b.shows("1", `{"name":"ab01","n":`+numbers)
		if a := b.apply(reset(c, 50, 40, "x", nil)); len(a.Stale) != 1 {
			t.Fatalf("Apply says %+v", a)
		}
		b.shows("1", `{"name":"ab01","n":`+numbers)
	})
	t.Run("merged with another cell later", func(t *testing.T) {
		b := newBench(t, unindexed, "profile", "users")
		b.apply(op(cellOf(t, "users", 1), 50, "a", exact()))
		b.apply(op(cellOf(t, "profile", 1), 51, "line\n\"2\"", nil))
		b.shows("1", `{"name":"line\n\"2\"","n":`+numbers)
		b.apply(reset(cellOf(t, "profile", 1), replicator.NoVersion, 60))
		b.shows("1", `{"name":"a","n":`+numbers)
		b.apply(reset(cellOf(t, "users", 1), replicator.NoVersion, 60))
		b.shows("1", "")
	})
}

func TestARefusedValueIsADeadLetterWithoutIt(t *testing.T) {
	const secret = "hunter2"
	for name, c := range map[string]struct {
		mapping string
		value   any
		says    string
	}{
		"a text for a number":  {`{"properties": {"n": {"type": "long"}}}`, secret, "field [n] of type [long]"},
		"an object for a text": {`{"properties": {"n": {"type": "keyword"}}}`, object("x", secret), "field [n]"},
		"a strict mapping": {`{"dynamic": "strict", "properties": {"name": {"type": "keyword"}}}`, secret,
			"strict and has no field [n]"},
		"a term that is immense": {`{"properties": {"n": {"type": "keyword"}}}`, secret + strings.Repeat("x", 40000),
			"longer than 32766 bytes"},
		"numbers and objects": {``, object("x", []any{int64(1), object("y", secret)}),
			`field [n.x] holds both objects and other values, which no mapping allows; ` +
				`map the field as "flattened" (OpenSearch: "flat_object"), or as "object" with "enabled": false; n is an object`},
		"texts and numbers in objects": {``, []any{object("a", secret), object("a", int64(5))},
			"mapper [n.a] cannot be changed from type ["},
		"an empty name":        {``, object("", secret), "a member's name is empty, "},
		"an empty name inside": {``, []any{object("a", object("", secret))}, "; n is a list"},
		"a blank name":         {``, object(" ", secret), "; n is an object"},
		"a name of dots":       {``, object("a..b", secret), "; n is an object"},
		"a date without a day": {`{"properties": {"n": {"type": "date"}}}`, "2024-05-00",
			"field [n] of type [date]; n is a text"},
		"text that is not UTF-8": {``, secret + "\xff", "field n: it is text that is not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.mapping)
			bad, good := cellOf(t, "users", 1), cellOf(t, "users", 2)
			b.apply(op(bad, 1, "before", nil))
			a := b.apply(op(bad, 2, "now", c.value), op(good, 2, "good", nil))
			if len(a.Rejected) != 1 || a.Rejected[0].Op != 0 || len(a.Stale) > 0 {
				t.Fatalf("Apply says %+v", a)
			}
			if text := a.Rejected[0].Err.Error(); strings.Contains(text, secret) || !strings.Contains(text, c.says) {
				t.Errorf("the reason is %q", text)
			}
			b.shows("1", "")
			b.shows("2", `{"name":"good"`)
			if a := b.apply(op(bad, 1, "before", nil)); len(a.Stale) != 1 {
				t.Errorf("an older version after it: %+v", a)
			}
		})
	}
}

// A mapping can't have fields with odd names, but objects whose members are not mapped may have such names.
func TestObjectsThatAreNotIndexedTakeAnyNames(t *testing.T) {
	value := replicator.ObjectOf(map[string]any{"": int64(1), "x": []any{int64(1), object("y..z", int64(2))}})
	flattened := "flattened"
	if newCluster(t, servertest.Elasticsearch(t)).isOpenSearch() {
		flattened = "flat_object"
	}
	for _, mapping := range []string{`{"dynamic": false}`, `{"properties": {"n": {"type": "` + flattened + `"}}}`,
		`{"properties": {"n": {"type": "object", "enabled": false}}}`} {
		b := newBench(t, mapping)
		b.apply(op(cellOf(t, "users", 1), 1, "a", value))
		b.shows("1", `{"name":"a","n":{"":1,"x":[1,{"y..z":2}]}`)
	}
}

// The cell that provides a refused field is to blame, even if the field was hidden until another cell changed.
func TestAMergedDocumentBlamesTheCellWhoseFieldItIs(t *testing.T) {
	b := newBench(t, `{"properties": {"n": {"type": "long"}}}`, "profile", "users")
	b.apply(op(cellOf(t, "profile", 1), 1, nil, int64(5)), op(cellOf(t, "users", 1), 1, "kept?", "no number"))
	b.shows("1", `{"name":"kept?","n":5`)
	a := b.apply(op(cellOf(t, "profile", 1), 2, "mine", nil))
	if len(a.Rejected) != 1 || !strings.Contains(a.Rejected[0].Err.Error(), "cell.users") {
		t.Fatalf("Apply says %+v", a)
	}
	b.shows("1", `{"name":"mine"`)
}

func TestAnAliasThatIsNotOursIsFatalWithTheWayOut(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	taken, foreign := servertest.Name(), servertest.Name()
	c.do("PUT", "/"+taken, `{"settings": `+oneShard+`}`)
	c.do("PUT", "/"+foreign+"-x", `{"settings": `+oneShard+`, "aliases": {"`+foreign+`": {}}}`)
	t.Cleanup(func() { c.do("DELETE", "/"+taken, ""); c.do("DELETE", "/"+foreign+"-x", "") })
	sink := newSink(t, c.url)
	defer sink.Close()
	for _, name := range []string{taken, foreign} {
		v := view(name, []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
		_, err := sink.Open(t.Context(), "", []*replicator.View{v})
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "DELETE /") {
			t.Errorf("Open says %v", err)
		}
		findings := sink.Check(t.Context(), []*replicator.View{v})
		if last := findings[len(findings)-1]; last.Level != replicator.Fail {
			t.Errorf("check says %+v", findings)
		}
	}
}

func TestSomebodyElsesIndexOfTheNameThatTheNextOneWouldHaveIsLeftAlone(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
	t.Cleanup(func() { c.do("DELETE", "/"+indexOf(v)+"-r1", ""); c.do("DELETE", "/"+indexOf(v)+"-r2", "") })
	c.do("PUT", "/"+indexOf(v)+"-r1", `{"settings": `+oneShard+`}`)
	sink := newSink(t, c.url)
	defer sink.Close()
	findings := sink.Check(t.Context(), []*replicator.View{v})
	if last := findings[len(findings)-1]; last.Level != replicator.OK ||
		!strings.Contains(last.Detail, "-r2 will be created") {
		t.Errorf("check says %+v", last)
	}
	if _, err := sink.Open(t.Context(), "", []*replicator.View{v}); err != nil {
		t.Fatal(err)
	}
}

// Only readers notice that an alias is missing, because the program writes to another alias.
func TestAnAliasThatSomebodyRemovedIsMadeAgain(t *testing.T) {
	b := newBench(t, "")
	at := replicator.Standing{Position: replicator.Position{Order: 5, Token: "t"}}
	b.apply(op(cellOf(t, "users", 1), 1, "a", nil))
	if err := b.target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.do("POST", "/_aliases", `{"actions": [{"remove": {"index": "`+indexOf(b.view)+`-r1", "alias": "`+indexOf(b.view)+`"}}]}`)
	at.Position.Order = 6
	if err := b.target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if got := len(b.search(indexOf(b.view))); got != 1 {
		t.Errorf("%d documents are shown", got)
	}
}

// If a user moves the alias to a foreign index, readers see foreign documents. So the view must fail.
func TestAnAliasThatSomebodyMovedFailsTheView(t *testing.T) {
	b := newBench(t, "")
	index := indexOf(b.view)
	t.Cleanup(func() { b.do("DELETE", "/"+index+"-foreign", "") })
	at := replicator.Standing{Position: replicator.Position{Order: 5, Token: "t"}}
	b.apply(op(cellOf(t, "users", 1), 1, "a", nil))
	if err := b.target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	b.open() // so that the next Mark checks the alias
	b.do("PUT", "/"+index+"-foreign", `{"settings": `+oneShard+`}`)
	b.do("POST", "/_aliases", `{"actions": [{"remove": {"index": "`+index+`-r1", "alias": "`+index+`"}},
		{"add": {"index": "`+index+`-foreign", "alias": "`+index+`"}}]}`)
	at.Position.Order = 6
	err := b.target.Mark(t.Context(), at)
	if !replicator.IsFatal(err) || !replicator.IsOfViews(err) ||
		!strings.Contains(err.Error(), "which this program did not create") {
		t.Errorf("Mark says %v", err)
	}
}

func TestARemovedIndexIsALossAndNotMadeByAWrite(t *testing.T) {
	b := newBench(t, "")
	b.apply(op(cellOf(t, "users", 1), 1, "a", nil))
	b.do("DELETE", "/"+indexOf(b.view)+"-r1", "")
	if _, err := b.target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 2), 1, "a", nil)}); !errors.Is(err,
		replicator.ErrSinkLost) {
		t.Errorf("Apply says %v", err)
	}
	if err := b.target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5,
		Token: "t"}}); !errors.Is(err, replicator.ErrSinkLost) {
		t.Errorf("Mark says %v", err)
	}
	if _, err := b.target.Versions(t.Context(), []replicator.Cell{cellOf(t, "users", 1)}); !errors.Is(err,
		replicator.ErrSinkLost) {
		t.Errorf("Versions says %v", err)
	}
	if found := b.indexes(indexOf(b.view)); len(found) > 0 {
		t.Errorf("there are %v", found)
	}
	if marks, err := b.sink.Marks(t.Context(), ""); err != nil {
		t.Error(err)
	} else {
		for _, m := range marks {
			if m.View == b.view.Name {
				t.Errorf("it still has the mark %+v", m)
			}
		}
	}
}

func TestAViewThatIsFilledAnewIsSeenWholeOnly(t *testing.T) {
	b := newBench(t, `{"properties": {"n": {"type": "keyword"}}}`)
	filled := func() {
		t.Helper()
		if err := b.target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 9,
			Token: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.apply(op(cellOf(t, "users", 1), 1, "old", nil), op(cellOf(t, "users", 2), 1, "old", nil))
	filled()
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/strange?refresh=true", `{"name": "by hand"}`)

	changed := *b.view
	changed.Fingerprint = "2"
	setMapping(&changed, `{"properties": {"n": {"type": "long"}}}`)
	b.view = &changed
	b.open()
	b.apply(op(cellOf(t, "users", 1), 1, "new", int64(5)))
	if got := len(b.search(indexOf(b.view))); got != 3 {
		t.Errorf("while it is filled, %d documents are shown", got)
	}
	b.shows("1", `{"name":"old"`)
	filled()
	if got := len(b.search(indexOf(b.view))); got != 1 {
		t.Errorf("once it is filled, %d documents are shown", got)
	}
	b.shows("1", `{"name":"new","n":5`)
	filled()
	if err := b.sink.Close(); err != nil { // removes the index that was shown before
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.indexes(indexOf(b.view))); got != "["+indexOf(b.view)+"-r2]" {
		t.Errorf("there are the indexes %s", got)
	}
}

func TestAViewOfShardsIsShownOnceAllHaveFilledIt(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	sink, err := elastic.New(elastic.Config{Name: "search", Addresses: []string{c.url}, Tables: tables,
		Sources: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
	defer c.drop(indexOf(v))
	fill := func(source string, n int64) {
		t.Helper()
		target, err := sink.Open(t.Context(), source, []*replicator.View{v})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", n), 1, source)}); err != nil {
			t.Fatal(err)
		}
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 9,
			Token: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	fill("a", 1)
	fill("b", 2)
	if err := sink.Forget(t.Context(), v.Name); err != nil {
		t.Fatal(err)
	}
	fill("a", 1)
	if got := fmt.Sprint(c.indexes(indexOf(v))); len(c.search(indexOf(v))) != 2 || !strings.Contains(got, "-r1") {
		t.Errorf("after one of two: %s", got)
	}
	fill("b", 2)
	if err := sink.Close(); err != nil { // removes the index that was shown before
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.indexes(indexOf(v))); len(c.search(indexOf(v))) != 2 || strings.Contains(got, "-r1 ") {
		t.Errorf("after both: %s", got)
	}
}

func TestWhatWasChangedByHandIsPutRight(t *testing.T) {
	b := newBench(t, "")
	c := cellOf(t, "users", 1)
	index := "/" + indexOf(b.view) + "-r1"
	b.apply(op(c, 5, "right", nil))
	b.do("PUT", index+"/_doc/1?version=9000000000000000000&version_type=external", `{"name": "wrong"}`)
	b.apply(reset(c, 5, 6, "right", nil))
	b.shows("1", `{"name":"right"`)
	b.do("DELETE", index+"/_doc/1", "")
	b.apply(reset(c, 5, 7, "right", nil))
	b.shows("1", `{"name":"right"`)
	b.apply(op(c, 8, "newer", nil))
	b.shows("1", `{"name":"newer"`)
}

func TestACellThatIsGoneIsFoundByItsTemplate(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	sink, err := elastic.New(elastic.Config{Name: "search", Addresses: []string{c.url}, Tables: tables,
		DocumentID: func(_ *replicator.View, c replicator.Cell) (string, string, error) {
			return "user-" + c.Key.String(), "everyone", nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
	v.Key, v.Member = "user-{row_key}", "everyone"
	defer c.drop(indexOf(v))
	target, err := sink.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	cell := cellOf(t, "users", 7)
	if _, err := target.Apply(t.Context(), []replicator.Op{op(cell, 5, "a")}); err != nil {
		t.Fatal(err)
	}
	if found := c.search(indexOf(v)); found["user-7"] == nil {
		t.Errorf("it shows %s", found)
	}
	if got, err := target.Versions(t.Context(), []replicator.Cell{cell}); err != nil || got[0].Lowest != 5 {
		t.Errorf("versions are %v, %v", got, err)
	}
	if _, err := target.Apply(t.Context(), []replicator.Op{reset(cell, replicator.NoVersion, 6)}); err != nil {
		t.Fatal(err)
	}
	if found := c.search(indexOf(v)); len(found) > 0 {
		t.Errorf("after it was deleted it shows %s", found)
	}
}

func TestABlockedIndexIsTemporary(t *testing.T) {
	b := newBench(t, "")
	block := func(on string) {
		b.do("PUT", "/"+indexOf(b.view)+"-r1/_settings", `{"index.blocks.read_only_allow_delete": `+on+`}`)
	}
	block("true")
	_, err := b.target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1, "a", nil)})
	if err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "disk") {
		t.Errorf("Apply says %v", err)
	}
	block("null")
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_settings", `{"index.blocks.write": true}`)
	block("true")
	advice := ""
	for _, f := range b.sink.Check(t.Context(), []*replicator.View{b.view}) {
		if f.Level == replicator.Fail && strings.Contains(f.Detail, "blocked by blocks.read_only_allow_delete, blocks.write") {
			advice = f.Fix
		}
	}
	requests := strings.Split(advice, "PUT ")[1:]
	if len(requests) != 2 {
		t.Fatalf("check advises %q", advice)
	}
	for _, r := range requests {
		path, settings, _ := strings.Cut(strings.TrimSuffix(r, ", then "), " ")
		b.do("PUT", "/"+path, settings)
	}
	b.apply(op(cellOf(t, "users", 1), 1, "a", nil))
	for _, f := range b.sink.Check(t.Context(), []*replicator.View{b.view}) {
		if f.Level != replicator.OK {
			t.Errorf("check says %+v", f)
		}
	}
}

func TestMarksTellOfTheSinksOwnViewsOnly(t *testing.T) {
	b := newBench(t, "")
	for views, want := range map[*replicator.View]int{b.view: 1, view("another", nil): 0} {
		sink := newSink(t, b.url, views)
		marks, err := sink.Marks(t.Context(), "")
		if err != nil || len(marks) != want {
			t.Errorf("%+v, %v", marks, err)
		}
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	}
}
