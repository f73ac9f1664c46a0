package dist

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"replicator/internal/guide"
)

// goreleaser is what .goreleaser.yaml says of the artefacts.
type goreleaser struct {
	Builds []struct {
		GOOS, GOARCH, Env, Flags, Ldflags []string
	}
	Archives []struct {
		Formats []string
		Name    string `yaml:"name_template"`
		Files   []struct{ Src string }
	}
	SBOMs []struct{ Documents []string } `yaml:"sboms"`
	NFPMs []struct {
		Formats  []string
		Name     string `yaml:"file_name_template"`
		Contents []content
		Scripts  map[string]string
		packaged `yaml:",inline"`
	} `yaml:"nfpms"`
	Checksum struct {
		Name string `yaml:"name_template"`
	}
}

// packaged is what goreleaser and nfpm say of a package in the same words.
type packaged struct {
	Maintainer, Description, License, Section, Priority string
	Recommends                                          []string
	RPM                                                 map[string]string
}

type content struct {
	Src, Dst, Type string
	FileInfo       map[string]any `yaml:"file_info"`
}

// One who releases with goreleaser publishes what `make dist` makes and tries.
func TestGoreleaserMakesTheSameArtefacts(t *testing.T) {
	var g goreleaser
	read(t, ".goreleaser.yaml", &g)
	build, packed, pack := g.Builds[0], g.Archives[0], g.NFPMs[0]
	fill := func(template string, target Target) string {
		return strings.NewReplacer("{{ .Version }}", "1.2.3", "{{ .Os }}", target.OS, "{{ .Arch }}", target.Arch).
			Replace(template)
	}
	var targets []Target
	var names []string
	for _, system := range build.GOOS {
		for _, arch := range build.GOARCH {
			target := Target{OS: system, Arch: arch}
			targets = append(targets, target)
			names = append(names, fill(packed.Name, target)+"."+packed.Formats[0], fill(g.SBOMs[0].Documents[0], target))
			if system == "linux" { // nfpm packages nothing else
				for _, format := range pack.Formats {
					names = append(names, fill(pack.Name, target)+"."+format)
				}
			}
		}
	}
	if !slices.Equal(targets, Targets()) {
		t.Errorf("it builds for %v, and make dist for %v", targets, Targets())
	}
	want := Release{Version: "1.2.3", Targets: Targets()}.Names()
	if slices.Sort(names); !slices.Equal(append(names, g.Checksum.Name), want) {
		t.Errorf("it makes %q, and make dist %q", names, want)
	}
	var files []string
	for _, f := range packed.Files {
		files = append(files, f.Src)
	}
	if !slices.Equal(files, beside()) {
		t.Errorf("its archives hold %q, and those of make dist %q", files, beside())
	}
	flags := strings.Join(slices.Concat(build.Env, build.Flags, build.Ldflags), " ")
	for _, flag := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "-pgo=" + guide.Path,
		"-s -w -buildid= ", "main.version=", "main.commit="} {
		if !strings.Contains(flags, flag) {
			t.Errorf("it builds with %s, without %s", flags, flag)
		}
	}
}

// However the program is built, it is the one that was measured.
func TestEveryBuildForUsersIsGuided(t *testing.T) {
	for _, name := range []string{"Makefile", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || !strings.Contains(string(text), " -pgo="+guide.Path+" ") {
			t.Errorf("%s does not build with -pgo=%s: %v", name, guide.Path, err)
		}
	}
}

func TestGoreleasersPackagesHoldTheSame(t *testing.T) {
	var g goreleaser
	read(t, ".goreleaser.yaml", &g)
	var n struct {
		Contents []content
		Scripts  map[string]string
		packaged `yaml:",inline"`
		Rest     map[string]any `yaml:",inline"`
	}
	read(t, "deploy/package/nfpm.yaml", &n)
	pack := g.NFPMs[0]
	if is, want := fmt.Sprintf("%+v", pack.packaged), fmt.Sprintf("%+v", n.packaged); is != want {
		t.Errorf("it says of a package\n%s\nand nfpm.yaml\n%s", is, want)
	}
	// What is built is put into bindir by goreleaser itself, and its paths are those of the checkout.
	based := func(contents []content) (all []string) {
		for _, c := range contents {
			if c.Src != "replicator" {
				c.Src = filepath.Base(c.Src)
				all = append(all, fmt.Sprintf("%+v", c))
			}
		}
		return all
	}
	if is, want := based(pack.Contents), based(n.Contents); !slices.Equal(is, want) {
		t.Errorf("its packages hold\n%s\nand those of nfpm.yaml\n%s", is, want)
	}
	for name, path := range pack.Scripts {
		pack.Scripts[name] = filepath.Base(path)
	}
	if !maps.Equal(pack.Scripts, n.Scripts) {
		t.Errorf("its scripts are %v, and those of nfpm.yaml %v", pack.Scripts, n.Scripts)
	}
}

// read reads a file of the checkout.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
