package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// module is the path of this module.
func module() string {
	return strings.TrimSuffix(reflect.TypeFor[marker]().PkgPath(), "/internal/guide")
}

type marker struct{}

// A profile of another program, or of this one under another module path, would have no effect, and no tool would
// report that.
func TestTheProfileIsOfThisProgram(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(Path)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(text)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range p.Function {
		if filepath.IsAbs(f.Filename) {
			t.Errorf("%s stands in %s, a place of the machine that it was made on", f.Name, f.Filename)
		}
		place := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
		name, _, _ := strings.Cut(place, ".")
		seen[f.Name[:len(f.Name)-len(place)]+name] = true
	}
	for _, name := range []string{"canal", "codec", "view", "pipeline", "sinks/redis", "sinks/mysql", "sinks/elastic"} {
		if !seen[module()+"/"+name] {
			t.Errorf("no function of %s/%s is in it: make profile makes it anew", module(), name)
		}
	}
}

// The program builds itself for `demo` with a package that knows the profile's path. The library that reads profiles
// must not become a part of the program.
func TestTheProgramHasNoLibraryForProfiles(t *testing.T) {
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module()+"/cmd/replicator").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(deps), "google/pprof") {
		t.Error("cmd/replicator is linked with google/pprof")
	}
}
