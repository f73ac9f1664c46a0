// Package dist makes the files of a release from one commit: archives, packages, bills of materials and checksums. They
// depend only on the commit and the Go release, not on the time, a path or a user.
package dist

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator/internal/guide"
)

// Target is an operating system and a processor architecture, as in GOOS and GOARCH.
type Target struct{ OS, Arch string }

// Targets returns the systems for which a release has the program.
func Targets() []Target {
	return []Target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

// Release describes the release to make.
type Release struct {
	Version string // the version without a leading v
	Commit  string
	Time    time.Time // the time of the commit, which every file has as its modification time
	Root    string
	Targets []Target
}

// beside returns the files that every archive and package has in addition to the program.
func beside() []string {
	return []string{"LICENSE", "README.md", "CHANGELOG.md", "config.example.toml"}
}

// Make makes the release in the directory out, which must not exist, and returns the names of the files.
func (r Release) Make(ctx context.Context, out string) ([]string, error) {
	if err := os.Mkdir(out, 0o755); err != nil {
		return nil, fmt.Errorf("dist: %w. Remove it first", err)
	}
	for _, target := range r.Targets {
		if err := r.makeTarget(ctx, target, out); err != nil {
			return nil, fmt.Errorf("dist: %s/%s: %w", target.OS, target.Arch, err)
		}
	}
	names := r.names()
	var sums strings.Builder
	for _, name := range names[:len(names)-1] {
		content, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
	}
	return names, os.WriteFile(filepath.Join(out, sumsName), []byte(sums.String()), 0o644)
}

const sumsName = "SHA256SUMS"

// names returns the release's files in order. The file of checksums is last.
func (r Release) names() (names []string) {
	for _, target := range r.Targets {
		base := r.base(target)
		names = append(names, base+".tar.gz", base+".cdx.json")
		if target.OS == "linux" {
			for _, format := range packages() {
				names = append(names, base+"."+format)
			}
		}
	}
	slices.Sort(names)
	return append(names, sumsName)
}

func (r Release) base(target Target) string {
	return fmt.Sprintf("replicator_%s_%s_%s", r.Version, target.OS, target.Arch)
}

func packages() []string { return []string{"deb", "rpm"} }

func (r Release) makeTarget(ctx context.Context, target Target, out string) (err error) {
	stage, err := os.MkdirTemp("", "replicator-dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	if err := r.fill(ctx, target, stage); err != nil {
		return err
	}
	base := r.base(target)
	err = errors.Join(
		archive(filepath.Join(out, base+".tar.gz"), stage, base, append(beside(), "replicator")),
		writeBill(filepath.Join(out, base+".cdx.json"), filepath.Join(stage, "replicator"), r))
	if err != nil || target.OS != "linux" {
		return err
	}
	for _, format := range packages() {
		if err := r.pack(ctx, target, stage, format, filepath.Join(out, base+"."+format)); err != nil {
			return err
		}
	}
	return nil
}

// fill copies the program and the files packed with it into stage. Their times and modes don't depend on the checkout.
func (r Release) fill(ctx context.Context, target Target, stage string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-pgo="+guide.Path, "-ldflags",
		fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s", r.Version, r.Commit),
		"-o", filepath.Join(stage, "replicator"), "./cmd/replicator")
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+target.OS, "GOARCH="+target.Arch, "GOAMD64=v1", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	files := beside()
	packed, err := filepath.Glob(filepath.Join(r.Root, "deploy", "package", "*"))
	if err != nil {
		return err
	}
	for _, path := range packed {
		files = append(files, filepath.Join("deploy", "package", filepath.Base(path)))
	}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(r.Root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(stage, filepath.Base(name)), content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	staged, err := filepath.Glob(filepath.Join(stage, "*"))
	for _, path := range staged {
		mode := os.FileMode(0o644)
		if filepath.Base(path) == "replicator" || filepath.Ext(path) == ".sh" {
			mode = 0o755
		}
		err = errors.Join(err, os.Chmod(path, mode), os.Chtimes(path, r.Time, r.Time)) // WriteFile would apply the umask
	}
	return err
}

func (r Release) pack(ctx context.Context, target Target, stage, format, file string) error {
	nfpm, err := r.nfpm(ctx)
	if err != nil {
		return err
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, nfpm, "package", "--config", "nfpm.yaml", "--packager", format, "--target", file)
	cmd.Dir = stage
	cmd.Env = append(os.Environ(), "VERSION="+r.Version, "ARCH="+target.Arch,
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(r.Time.Unix(), 10))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfpm: %w\n%s", err, out)
	}
	return nil
}

// nfpm returns the path of the nfpm program, which go tool builds once.
func (r Release) nfpm(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=internal/dist/tools.mod", "-n", "nfpm")
	cmd.Dir = r.Root
	var said strings.Builder
	cmd.Stderr = &said
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool nfpm: %w\n%s", err, said.String())
	}
	return strings.TrimSpace(string(path)), nil
}
