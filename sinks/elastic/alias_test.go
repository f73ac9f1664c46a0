package elastic_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
)

// move removes an alias from an index and adds it to another index without a filter, as a user's script may do.
func (c *cluster) move(alias, from, to string) {
	c.t.Helper()
	c.do("POST", "/_aliases", `{"actions": [{"remove": {"index": "`+from+`", "alias": "`+alias+`"}},
		{"add": {"index": "`+to+`", "alias": "`+alias+`"}}]}`)
}

// template creates a template for the indexes of an alias.
func (c *cluster) template(alias, template string) (remove func()) {
	c.t.Helper()
	name := servertest.Name()
	c.do("PUT", "/_index_template/"+name, `{"index_patterns": ["`+alias+`-r*"], "priority": 900, "template": `+template+`}`)
	remove = func() { c.ask("DELETE", "/_index_template/"+name, "") }
	c.t.Cleanup(remove)
	return remove
}

// shown returns the ids of the documents that an alias shows.
func (c *cluster) shown(alias string) string {
	c.t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(c.search(alias))), ",")
}

// leadsTo returns the indexes that an alias leads to.
func (c *cluster) leadsTo(alias string) string {
	c.t.Helper()
	found := strings.Fields(string(c.do("GET", "/_cat/aliases/"+alias+"?h=index", "")))
	slices.Sort(found)
	return strings.Join(found, ",")
}

func at(order int64) replicator.Standing {
	return replicator.Standing{Position: replicator.Position{Order: order, Token: "t"}}
}

func filling(order int64) replicator.Standing {
	s := at(order)
	s.Fill = map[string]replicator.Progress{}
	return s
}

// A user, a script or a restore may change an alias so that readers see deleted cells and the marks. The program itself
// would not notice, because it writes to other aliases.
func TestAnAliasThatShowsWhatItShouldNotIsSetRight(t *testing.T) {
	p := newPair(t)
	alias, index, neighbour := indexOf(p.well), indexOf(p.well)+"-r1", indexOf(p.other)+"-r1"
	target := p.open(p.views...)
	two := slices.Concat(p.both(1, "a"), p.both(1, "b"))
	two[1].Cell = cellOf(t, "users", 2)
	if _, err := target.Apply(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	gone := reset(two[1].Cell, replicator.NoVersion, 2)
	gone.Values = append(gone.Values, replicator.Value{View: 1})
	if _, err := target.Apply(t.Context(), []replicator.Op{gone}); err != nil {
		t.Fatal(err)
	}
	warned := func() (warned bool) {
		for _, f := range p.sink.Check(t.Context(), p.views) {
			warned = warned || f.What == "view "+p.well.Name+": alias" && f.Level == replicator.Warn
		}
		return warned
	}
	for name, spoil := range map[string]func(){
		"it has no filter": func() { p.move(alias, index, index) },
		"it has another filter": func() {
			p.do("POST", "/"+index+"/_alias/"+alias, `{"filter": {"match_all": {}}}`)
		},
		"it leads to another view's index, too": func() { p.do("POST", "/"+neighbour+"/_alias/"+alias, "") },
		"it leads to another view's index":      func() { p.move(alias, index, neighbour) },
	} {
		for by, look := range map[string]func(){
			"Mark": func() {
				if err := target.Mark(t.Context(), at(5)); err != nil {
					t.Fatal(err)
				}
			},
			"Open": func() { p.open(p.views...) },
		} {
			t.Run(name+"/"+by, func(t *testing.T) {
				target = p.open(p.views...) // so that the next Mark checks the alias
				spoil()
				if !warned() {
					t.Error("check does not warn")
				}
				look()
				if name == "it leads to another view's index" && by == "Mark" {
					target = p.open(p.views...) // corrects the rest
				}
				if got := p.shown(alias); got != "1" || p.leadsTo(alias) != index {
					t.Errorf("it shows %s, of %s", got, p.leadsTo(alias))
				}
				if warned() {
					t.Error("check warns of what was set right")
				}
			})
		}
	}
	if got := p.leadsTo(indexOf(p.other)); got != neighbour || p.shown(indexOf(p.other)) != "1" {
		t.Errorf("the neighbour's alias leads to %s", got)
	}
}

// A template may add the view's alias to each new index. An index that is being filled must still not be shown.
func TestATemplateThatAddsTheAliasShowsNoIndexThatIsBeingFilled(t *testing.T) {
	b := newBench(t, "")
	alias := indexOf(b.view)
	b.apply(op(cellOf(t, "users", 1), 1, "a", nil))
	if err := b.target.Mark(t.Context(), at(5)); err != nil {
		t.Fatal(err)
	}
	b.template(alias, `{"aliases": {"`+alias+`": {}}}`)
	sink := elastic.Shadowing{Sink: b.sink}
	if _, err := sink.Open(t.Context(), "", []*replicator.View{sink.Shadow(b.view)}); err != nil {
		t.Fatal(err)
	}
	if got := b.leadsTo(alias); got != alias+"-r1" {
		t.Errorf("beside a shadow it leads to %s", got)
	}
	if err := sink.Discard(t.Context(), []*replicator.View{b.view}); err != nil {
		t.Fatal(err)
	}
	changed := *b.view
	changed.Fingerprint, b.view = "2", &changed
	b.open()
	b.move(alias, alias+"-r1", alias+"-r1")
	if err := b.target.Mark(t.Context(), filling(6)); err != nil {
		t.Fatal(err)
	}
	if got := b.leadsTo(alias); got != alias+"-r1" || b.shown(alias) != "1" {
		t.Errorf("while the view is filled anew it leads to %s and shows %s", got, b.shown(alias))
	}
	if err := b.target.Mark(t.Context(), at(7)); err != nil {
		t.Fatal(err)
	}
	if got := b.leadsTo(alias); got != alias+"-r2" {
		t.Errorf("once it is filled it leads to %s", got)
	}
}

// Another replicator swaps in a rebuilt view after this one has read the alias and before it corrects the alias.
func TestASwapMeanwhileIsNotUndone(t *testing.T) {
	b := newBench(t, "")
	alias := indexOf(b.view)
	to, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	swap := func() {}
	forward := httputil.NewSingleHostReverseProxy(to)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_aliases" {
			swap()
		}
		forward.ServeHTTP(w, r)
	}))
	defer between.Close()
	sink := newSink(t, between.URL, b.view)
	defer sink.Close()
	target, err := sink.Open(t.Context(), "", []*replicator.View{b.view})
	if err != nil {
		t.Fatal(err)
	}
	b.do("PUT", "/"+alias+"-r2", fmt.Sprintf(`{"settings": %s, "mappings": {"_meta": {"replicator":
		{"view": %q, "fingerprint": "1"}}}}`, oneShard, b.view.Name))
	b.move(alias, alias+"-r1", alias+"-r1")
	swaps := 0
	swap = func() {
		b.move(alias, alias+"-r1", alias+"-r2")
		swaps++
	}
	if err := target.Mark(t.Context(), at(5)); err != nil {
		t.Fatal(err)
	}
	if got := b.leadsTo(alias); got != alias+"-r2" || swaps != 1 {
		t.Errorf("it leads to %s after %d swaps", got, swaps)
	}
}
