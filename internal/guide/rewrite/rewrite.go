// Package rewrite merges and renames the profiles that package guide is about. It is apart from that so that the
// program, which launches itself for `demo`, has no library for profiles in it.
package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/pprof/profile"
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
