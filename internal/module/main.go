// Command module changes this module's path: in go.mod, in the tools' module files, in every import, and in the
// compiler's profile.
//
//	go run ./internal/module github.com/acme/replicator
//
// No other file holds the path. Code that needs the path uses reflect.Type.PkgPath, and package lint checks that.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"replicator/internal/guide"
	"replicator/internal/guide/rewrite"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: module PATH, as in github.com/acme/replicator")
		os.Exit(2)
	}
	changed, err := rename(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d files changed\n", os.Args[1], changed)
}

func rename(root, to string) (changed int, err error) {
	if first, _, _ := strings.Cut(to, "/"); !strings.Contains(first, ".") {
		return 0, fmt.Errorf("%q can't be fetched: a path begins with a host's name, as in github.com/acme/replicator", to)
	}
	from, err := pathOf(root)
	if err != nil {
		return 0, err
	}
	// The go command checks the new path before any file is changed.
	edit := exec.Command("go", "mod", "edit", "-module", to)
	edit.Dir = root
	if out, err := edit.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go mod edit: %w: %s", err, out)
	}
	changed = 1
	line := regexp.MustCompile(`(?m)^module ` + regexp.QuoteMeta(from) + `$`)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		change := func(text []byte) ([]byte, error) { return text, nil }
		switch {
		case !entry.Type().IsRegular():
			return nil
		case filepath.Ext(path) == ".go":
			change = func(text []byte) ([]byte, error) { return imports(text, from, to) }
		case filepath.Ext(path) == ".mod":
			change = func(text []byte) ([]byte, error) { return line.ReplaceAll(text, []byte("module "+to)), nil }
		}
		if path == filepath.Join(root, filepath.FromSlash(guide.Path)) {
			change = func(text []byte) ([]byte, error) { return rewrite.Rename(text, from, to) }
		}
		was, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		is, err := change(was)
		if err != nil || bytes.Equal(was, is) {
			return err
		}
		changed++
		return os.WriteFile(path, is, 0o644)
	})
	return changed, err
}

func pathOf(root string) (string, error) {
	list := exec.Command("go", "list", "-m")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func imports(text []byte, from, to string) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out []byte
	done := 0
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		rest, ours := strings.CutPrefix(path, from)
		if !ours || rest != "" && rest[0] != '/' {
			continue
		}
		out = append(out, text[done:files.Position(spec.Path.Pos()).Offset]...)
		out = strconv.AppendQuote(out, to+rest)
		done = files.Position(spec.Path.End()).Offset
	}
	if done == 0 {
		return text, nil
	}
	return format.Source(append(out, text[done:]...))
}
