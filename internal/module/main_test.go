package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	home    = "example.org/acme/replicator"
	version = "v1.2.3"
)

// This is what a maintainer does when the repository gets its final address, and what its users do then.
func TestGoInstallTakesTheModuleByItsNewPath(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program under another name")
	}
	tree, names := checkout(t)
	changed, err := rename(tree, home)
	if err != nil {
		t.Fatal(err)
	}
	if changed < 100 {
		t.Errorf("%d files were changed", changed)
	}
	// Every imported package must exist, also those that tests import.
	goCommand(t, tree, nil, "list", "-test", "-deps", "./...")

	modules := strings.TrimSpace(goCommand(t, tree, nil, "env", "GOMODCACHE"))
	env := []string{"GOPROXY=file://" + proxy(t, tree, names) + ",file://" + modules + "/cache/download", "GONOSUMDB=*",
		"GOMODCACHE=" + t.TempDir(), "GOBIN=" + t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0"}
	goCommand(t, t.TempDir(), env, "install", home+"/cmd/replicator@"+version)
	out, err := exec.Command(filepath.Join(strings.TrimPrefix(env[3], "GOBIN="), "replicator"), "version").CombinedOutput()
	if want := "replicator 1.2.3 " + runtime.Version(); err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("version: %v: %s, want %s", err, out, want)
	}
}

func TestAPathThatCantBeFetchedIsRefused(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "go.mod")
	const text = "module replicator\n\ngo 1.26.0\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"", "replicator", "acme/replicator", "github.com/acme/a replicator", "github.com//x"} {
		_, err := rename(root, to)
		is, readErr := os.ReadFile(file)
		if err == nil || readErr != nil || string(is) != text {
			t.Errorf("%q: %v, %v; go.mod is %s", to, err, readErr, is)
		}
	}
}

func TestOnlyImportsOfTheModuleChange(t *testing.T) {
	const was = `package x

import (
	"errors"

	"replicator"
	"replicator/view" // "replicator/view"
	v2 "replicator/view/v2"
	_ "replicators/view"
)

const id = "replicator/view"
`
	is, err := imports([]byte(was), "replicator", "a.b/c")
	want := strings.NewReplacer("\t\"replicator\"\n", "\t\"a.b/c\"\n", "\t\"replicator/view\" //", "\t\"a.b/c/view\" //",
		"v2 \"replicator/", "v2 \"a.b/c/").Replace(was)
	if err != nil || string(is) != want {
		t.Errorf("%v\n%s", err, is)
	}
}

// checkout copies the files of this checkout to a directory, and returns their names.
func checkout(t *testing.T) (dir string, names []string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, but not committed yet
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644)); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return dir, names
}

// proxy returns the directory of a module proxy that offers the files as a version of the module.
func proxy(t *testing.T, tree string, names []string) string {
	t.Helper()
	dir := t.TempDir()
	versions := filepath.Join(dir, home, "@v")
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		file, err := w.Create(home + "@" + version + "/" + name)
		if err == nil {
			_, err = file.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	requirements, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err := errors.Join(err, w.Close(), os.MkdirAll(versions, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".zip": packed.Bytes(),
		version + ".mod":  requirements,
		version + ".info": fmt.Appendf(nil, `{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, version)} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goCommand runs the go command, and returns what it prints.
func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return string(out)
}
