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

// omissions are rules for _source in a mapping. Each has the name of the field that _source then lacks.
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

// enough are the omissions that every test tries: of everything, of a part of the state, and of a field.
var enough = []string{`{"enabled": false}`, `{"excludes": ["_replicator.cells.*"]}`, `{"excludes": ["name"]}`}

// If a template or mapping_file omits from _source what the program needs, only that view fails, and no index is left.
// Once the rule is corrected, the view works.
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
					if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "omits "+missing+" from _source") {
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
				told := strings.HasPrefix(checked, "view "+p.other.Name) && strings.Contains(checked, "omits "+missing)
				if old := by == "a template of the old kind"; told == (missing == "" || old) || old && checked != "" {
					t.Errorf("check says %q", checked)
				}
				p.works()
			})
		}
	}
}

// works applies an op and writes a mark, twice. The second time the target reads both back.
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

// An index setting can also disable _source. It doesn't show in the mapping.
func TestASettingThatDisablesTheSourceStopsTheViewAlone(t *testing.T) {
	p := newPair(t)
	if p.isOpenSearch() {
		t.Skip("OpenSearch has no such setting")
	}
	mend := p.template(indexOf(p.other), `{"settings": {"index.mapping.source.mode": "disabled"}}`)
	_, err := p.sink.Open(t.Context(), "", p.views)
	if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "omits _replicator from _source") {
		t.Errorf("Open says %v", err)
	}
	sinktest.Refuses(t, err, p.views, p.other.Name)
	mend()
	p.works()
}

// A mapping_file overrides a template.
func TestAMappingFileKeepsWhatATemplateOmits(t *testing.T) {
	p := newPair(t)
	p.template(indexOf(p.other), `{"mappings": {"_source": {"enabled": false}}}`)
	setMapping(p.other, `{"_source": {"enabled": true}}`)
	p.works()
}

// An index from a version that did not check this can't be used any more, so the view gets a new index.
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

// If one view's mark is gone, only that view is lost.
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
