package rewrite

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestAMergedProfileHasTheTimeOfAllAndNothingOfTheMachine(t *testing.T) {
	write := func(name, function string, samples int64) string {
		mapping := &profile.Mapping{ID: 1, Start: 1, Limit: 2, File: "/home/somebody/replicator", BuildID: "b"}
		f := &profile.Function{ID: 1, Name: function, SystemName: function, Filename: function + ".go"}
		l := &profile.Location{ID: 1, Mapping: mapping, Address: 1, Line: []profile.Line{{Function: f, Line: 3}}}
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &profile.ValueType{},
			Sample:  []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{samples}}},
			Mapping: []*profile.Mapping{mapping}, Location: []*profile.Location{l}, Function: []*profile.Function{f},
			TimeNanos: 1,
		}
		path := filepath.Join(t.TempDir(), name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := p.Write(file); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var out bytes.Buffer
	if err := Merge(&out, []string{write("a", "m/x.F", 2), write("b", "m/x.F", 3), write("c", "m.G", 4)}); err != nil {
		t.Fatal(err)
	}
	text, err := Rename(out.Bytes(), "m", "a.b/m")
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(text)
	if err != nil {
		t.Fatal(err)
	}
	is := map[string]int64{}
	for _, s := range p.Sample {
		is[s.Location[0].Line[0].Function.Name] += s.Value[0]
	}
	if want := map[string]int64{"a.b/m/x.F": 5, "a.b/m.G": 4}; !reflect.DeepEqual(is, want) || p.TimeNanos != 0 ||
		p.Mapping[0].File != "replicator" || p.Mapping[0].BuildID != "" {
		t.Errorf("%v of %+v at %d, want %v", is, p.Mapping[0], p.TimeNanos, want)
	}
}

func TestAProfileThatIsNoneIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Merge(new(bytes.Buffer), []string{path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

func TestOnlyFunctionsOfTheModuleAreRenamed(t *testing.T) {
	for name, want := range map[string]string{
		"m/x.F": "a.b/m/x.F", "m.G": "a.b/m.G", "mm.F": "mm.F", "x/m.F": "x/m.F", "runtime.mallocgc": "runtime.mallocgc",
	} {
		if is := renamed(name, "m", "a.b/m"); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
}
