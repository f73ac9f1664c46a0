package elastic_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// omissions are what a mapping may say of _source, each with what is missing in it then.
var omissions = map[string]string{
	`{"excludes": ["_replicator"]}`:              "_replicator",
	`{"excludes": ["_replicator.cells.*"]}`:      "_replicator",
	`{"excludes": ["*.cells"]}`:                  "_replicator",
	`{"includes": ["name"]}`:                     "_replicator",
	`{"enabled": false}`:                         "_replicator",
	`{"excludes": ["name"]}`:                     "name",
	`{"excludes": ["name.first"]}`:               "name",
	`{"includes": ["_replicator", "n"]}`:         "name",
	`{"excludes": ["another", "names", "nam"]}`:  "",
	`{"includes": ["_rep*", "name", "another"]}`: "",
}

// enough are the omissions that are tried in every way: of all, of a part of the state, and of a value.
var enough = []string{`{"enabled": false}`, `{"excludes": ["_replicator.cells.*"]}`, `{"excludes": ["name"]}`}

// A template or a mapping_file that leaves out of _source what the program keeps there stops the view alone, and leaves
// no index; once that is mended the view is well.
func TestAMappingThatOmitsWhatIsReadBackStopsTheViewAlone(t *testing.T) {
	for source, missing := range omissions {
		mapping := `{"mappings": {"_source": ` + source + `}}`
		for by, omit := range map[string]func(p *pair) (mend func()){
			"a template": func(p *pair) func() { return p.template(indexOf(p.other), mapping) },
			"a template of the old kind": func(p *pair) func() {
				name := "/_template/" + servertest.Name()
				p.do("PUT", name, `{"index_patterns": ["`+indexOf(p.other)+`-r*"], "mappings": {"_source": `+source+`}}`)
				p.t.Cleanup(func() { p.ask("DELETE", name, "") })
				return func() { p.do("DELETE", name, "") }
			},
			"mapping_file": func(p *pair) func() {
				setMapping(p.other, mapping)
				return func() { setMapping(p.other, "") }
			},
		} {
			if by != "a template" && !slices.Contains(enough, source) {
				continue
			}
			t.Run(by+" "+source, func(t *testing.T) {
				p := newPair(t)
				mend := omit(p)
				checked := ""
				for _, f := range p.sink.Check(t.Context(), p.views) {
					if f.Level == replicator.Fail {
						checked += f.What + ": " + f.Detail
					}
				}
				_, err := p.sink.Open(t.Context(), "", p.views)
				if missing != "" {
					if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "leaves "+missing+" out of _source") {
						t.Fatalf("Open says %v", err)
					}
					sinktest.Refuses(t, err, p.views, p.other.Name)
					if left := p.indexes(indexOf(p.other)); len(left) > 0 {
						t.Errorf("it leaves %v", left)
					}
					if err := p.open(p.well).Mark(t.Context(), at(1)); err != nil {
						t.Errorf("the other view: %v", err)
					}
					mend()
				}
				told := strings.HasPrefix(checked, "view "+p.other.Name) && strings.Contains(checked, "leaves "+missing)
				if old := by == "a template of the old kind"; told == (missing == "" || old) || old && checked != "" {
					t.Errorf("check says %q", checked)
				}
				p.works()
			})
		}
	}
}

// works applies and marks, twice: the second time on what is read back.
func (p *pair) works() {
	p.t.Helper()
	for n := range int64(2) {
		target := p.open(p.views...)
		a, err := target.Apply(p.t.Context(), p.both(n+1, "a"))
		if err == nil {
			err = target.Mark(p.t.Context(), at(n+1))
		}
		if err != nil || len(a.Stale)+len(a.Rejected) > 0 {
			p.t.Fatalf("%+v, %v", a, err)
		}
	}
	for _, v := range p.views {
		if got := p.shown(indexOf(v)); got != "1" {
			p.t.Errorf("%s shows %s", indexOf(v), got)
		}
	}
}

// A setting may do the same, of which the mapping says nothing.
func TestASettingThatDisablesTheSourceStopsTheViewAlone(t *testing.T) {
	p := newPair(t)
	if p.isOpenSearch() {
		t.Skip("OpenSearch has no such setting")
	}
	mend := p.template(indexOf(p.other), `{"settings": {"index.mapping.source.mode": "disabled"}}`)
	_, err := p.sink.Open(t.Context(), "", p.views)
	if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "leaves _replicator out of _source") {
		t.Errorf("Open says %v", err)
	}
	sinktest.Refuses(t, err, p.views, p.other.Name)
	mend()
	p.works()
}

// What a mapping_file says counts more than a template.
func TestAMappingFileKeepsWhatATemplateOmits(t *testing.T) {
	p := newPair(t)
	p.template(indexOf(p.other), `{"mappings": {"_source": {"enabled": false}}}`)
	setMapping(p.other, `{"_source": {"enabled": true}}`)
	p.works()
}

// An index from before this was looked at can't be gone on with: the view gets another one.
func TestAnIndexThatOmitsTheStateIsReplaced(t *testing.T) {
	for _, source := range enough {
		t.Run(source, func(t *testing.T) {
			p := newPair(t)
			p.do("PUT", "/"+indexOf(p.other)+"-r1", `{"settings": `+oneShard+`, "mappings": {"_source": `+source+`,
				"_meta": {"replicator": {"view": "`+p.other.Name+`", "fingerprint": "1"}}},
				"aliases": {"`+indexOf(p.other)+`": {}, "`+indexOf(p.other)+`-r1-write-abc": {"is_hidden": true}}}`)
			p.do("PUT", "/"+indexOf(p.other)+"-r1/_doc/replicator:marks", `{"_replicator": {"hidden": true}}`)
			if marks, err := p.sink.Marks(t.Context(), ""); err != nil || len(marks) > 0 {
				t.Errorf("the marks are %+v, %v", marks, err)
			}
			p.works()
		})
	}
}

// That a view's mark is gone is the view's own loss.
func TestAMarkThatIsGoneIsTheViewsOwnLoss(t *testing.T) {
	p := newPair(t)
	target := p.open(p.views...)
	if err := target.Mark(t.Context(), at(1)); err != nil {
		t.Fatal(err)
	}
	p.do("DELETE", "/"+indexOf(p.other)+"-r1/_doc/replicator:marks", "")
	err := target.Mark(t.Context(), at(2))
	if !errors.Is(err, replicator.ErrSinkLost) {
		t.Errorf("Mark says %v", err)
	}
	sinktest.Refuses(t, err, p.views, p.other.Name)
}
