// Package rewrite merges and renames the profiles of package guide. It is a separate package so that the program, which
// builds itself for `demo`, does not contain a library for profiles.
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

// Merge merges CPU profiles from files into one. It keeps the names of functions and nothing about the machine.
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

// Rename returns a profile in which the functions of the Go module `from` have names of the module `to`.
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

// renamed renames a name that begins with a package's path. It leaves type arguments of functions unchanged.
func renamed(name, from, to string) string {
	if rest, ours := strings.CutPrefix(name, from); ours && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ".")) {
		return to + rest
	}
	return name
}
