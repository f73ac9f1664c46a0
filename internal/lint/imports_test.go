package lint

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"replicator"
)

// module is the path of this module.
var module = reflect.TypeFor[replicator.View]().PkgPath()

// unit returns the unit to which the rules assign a package: "" for the root package, "sinks/redis" for a sink and the
// packages below it, else the first folder. outside is true for a package of another module.
func unit(path string) (unit string, outside bool) {
	if path == module {
		return "", false
	}
	rel, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		return "", true
	}
	parts := strings.Split(rel, "/")
	if parts[0] == "sinks" && len(parts) > 1 {
		return "sinks/" + parts[1], false
	}
	return parts[0], false
}

// isProgram reports whether a unit may import all leaves. service is the program without its command line, and sinks is
// the list of the types of sink.
func isProgram(unit string) bool {
	return slices.Contains([]string{"cmd", "service", "bench", "torture", "examples", "sinks"}, unit)
}

// violation returns the rule that an import breaks; "" if it breaks none. The rules concern a package's own code, not
// its tests.
func violation(pkg, imported string) string {
	from, _ := unit(pkg)
	to, outside := unit(imported)
	standard := outside && !strings.Contains(strings.Split(imported, "/")[0], ".")
	helper := strings.HasPrefix(imported, module+"/internal/servers/servertest") || to == "sinks/sinktest"
	switch {
	case from == "" && !standard:
		return "the root package imports the standard library only"
	case outside || to == "" || to == from:
		return ""
	case isProgram(from):
		if helper {
			return "test helpers are for tests"
		}
		switch {
		case from == "service" && strings.HasPrefix(to, "sinks/"):
			return "the service is given its sinks by the program"
		case from == "service" && strings.HasPrefix(imported, module+"/internal/servers"):
			return "servers are for tests and the demo"
		}
		return "" // the demo and the benchmark run an unchanged example
	case isProgram(to):
		return "programs are imported by programs only"
	case strings.HasPrefix(imported, module+"/internal/servers"):
		return "servers are for tests and programs"
	case to == "internal":
		return ""
	case to == "sinks/judge" && strings.HasPrefix(from, "sinks/"):
		return "" // sinks share its code
	case to == "config" && strings.HasPrefix(from, "sinks/"):
		return "" // a sink reads its own settings
	case from == "internal":
		return "internal packages serve the leaves and import none"
	}
	return "leaves import the root and never each other; what both need belongs in the root"
}

func TestImports(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", module+"/...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; packages++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, imported := range p.Imports {
			if v := violation(p.ImportPath, imported); v != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, v)
			}
		}
	}
	if packages < 2 {
		t.Errorf("go list found %d packages", packages)
	}
}

func TestViolation(t *testing.T) {
	for _, c := range []struct {
		pkg, imported string
		allowed       bool
	}{
		{module, "net/http", true},
		{module, "example.org/x", false},
		{module, module + "/view", false},
		{module, module + "/internal/text", false},
		{module + "/canal", module, true},
		{module + "/canal", "example.org/x", true},
		{module + "/canal/wire", module + "/canal", true},
		{module + "/canal", module + "/codec", false},
		{module + "/canal", module + "/internal/text", true},
		{module + "/canal", module + "/internal/servers", false},
		{module + "/sinks/redis", module + "/sinks/mysql", false},
		{module + "/sinks/redis", module + "/sinks/judge", true},
		{module + "/canal", module + "/sinks/judge", false},
		{module + "/sinks/judge", module + "/sinks/redis", false},
		{module + "/sinks/redis", module + "/config", true},
		{module + "/sinks/redis", module + "/sinks", false},
		{module + "/config", module + "/sinks/redis", false},
		{module + "/config", module + "/sinks", false},
		{module + "/sinks", module + "/sinks/redis", true},
		{module + "/cmd/replicator", module + "/sinks", true},
		{module + "/sinks/redis/lua", module + "/sinks/redis", true},
		{module + "/sinks/redis", module + "/sinks/sinktest", false},
		{module + "/internal/text", module + "/codec", false},
		{module + "/internal/text", module, true},
		{module + "/internal/servers/servertest", module + "/internal/servers", true},
		{module + "/cmd/replicator", module + "/sinks/redis", true},
		{module + "/cmd/replicator", module + "/internal/servers", true},
		{module + "/cmd/replicator", module + "/internal/servers/servertest", false},
		{module + "/bench", module + "/canal", true},
		{module + "/service", module + "/canal", true},
		{module + "/service", module + "/sinks/redis", false},
		{module + "/service", module + "/internal/servers", false},
		{module + "/cmd/replicator", module + "/service", true},
		{module + "/server", module + "/service", false},
		{module + "/config", module + "/cmd/replicator", false},
		{module + "/config", module + "/examples/jogchat", false},
		{module + "/internal/text", module + "/bench", false},
		{module + "/cmd/replicator", module + "/examples/jogchat", true},
	} {
		if v := violation(c.pkg, c.imported); (v == "") != c.allowed {
			t.Errorf("%s imports %s: %q", c.pkg, c.imported, v)
		}
	}
}
