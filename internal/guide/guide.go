// Package guide keeps the profile that guides the compiler (go help build: -pgo): where the program spends its time on
// the loads of the benchmark. What is called most is inlined further there, and calls through an interface are made
// directly where one type is behind it nearly always.
//
// `make build`, `make dist`, the Dockerfile and .goreleaser.yaml build with it, and the benchmark measures that build. It
// is not cmd/replicator/default.pgo, which every go command would take: each package that the program needs is compiled
// once more with it, the standard library included, and tests gain nothing by that.
//
// The compiler finds functions by their names, module path included, and takes no notice of those that are gone. So a
// profile grows old harmlessly and silently. `make profile` makes it anew.
package guide

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/pprof/profile"
)

// Path is the profile's, below the module's root.
const Path = "cmd/replicator/guide.pgo"

// Variable names the directory that a program writes its profile to, if it is built with Tag.
const (
	Variable = "REPLICATOR_PROFILE"
	Tag      = "profile"
)

// Merge writes one profile of the CPU for those in the files. It names functions and nothing of the machine.
func Merge(w io.Writer, files []string) error {
	var all []*profile.Profile
	for _, name := range files {
		p, err := read(name)
		if err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
		all = append(all, p)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return fmt.Errorf("merging profiles: %w", err)
	}
	for _, m := range merged.Mapping {
		m.File, m.BuildID = "replicator", ""
	}
	merged.TimeNanos = 0
	return merged.Write(w)
}

func read(name string) (p *profile.Profile, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return profile.Parse(file)
}

// Rename is a profile whose functions of the module from are of to.
func Rename(text []byte, from, to string) ([]byte, error) {
	p, err := profile.ParseData(text)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	for _, f := range p.Function {
		f.Name, f.SystemName = renamed(f.Name, from, to), renamed(f.SystemName, from, to)
		f.Filename = renamed(f.Filename, from, to)
	}
	var out bytes.Buffer
	err = p.Write(&out)
	return out.Bytes(), err
}

// renamed is a name that begins with a package's path. Types that a function is instantiated with stay as they are.
func renamed(name, from, to string) string {
	if rest, ours := strings.CutPrefix(name, from); ours && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ".")) {
		return to + rest
	}
	return name
}
