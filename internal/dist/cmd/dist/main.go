// Command dist makes a release of the checked-out commit in a directory, twice, and compares the two:
//
//	go run ./internal/dist/cmd/dist [-version V] [-targets linux/amd64,…] DIR
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"replicator/internal/dist"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	version := flag.String("version", "0.1.0", "the release's `version`")
	targets := flag.String("targets", "", "`OS/ARCH,…` instead of all")
	flag.Parse()
	err := errors.New("usage: dist [-version V] [-targets OS/ARCH,…] DIR")
	if flag.NArg() == 1 {
		err = run(ctx, *version, *targets, flag.Arg(0))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, targets, out string) (err error) {
	r := dist.Release{Version: strings.TrimPrefix(version, "v"), Root: ".", Targets: dist.Targets()}
	if targets != "" {
		r.Targets = nil
		for name := range strings.SplitSeq(targets, ",") {
			system, arch, _ := strings.Cut(name, "/")
			r.Targets = append(r.Targets, dist.Target{OS: system, Arch: arch})
		}
	}
	commit, err := exec.CommandContext(ctx, "git", "show", "-s", "--format=%H %ct", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("dist: git show: %w (a release is made from a commit)", err)
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	if err != nil || len(changed) > 0 {
		return fmt.Errorf("dist: a release is made from a commit, but this checkout has other changes: %s%w", changed,
			errors.Join(err, errors.New("commit first")))
	}
	hash, at, _ := strings.Cut(strings.TrimSpace(string(commit)), " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	r.Commit, r.Time = hash[:12], time.Unix(seconds, 0)
	names, err := r.Make(ctx, out)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "replicator-dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	again := filepath.Join(temporary, "again")
	if _, err := r.Make(ctx, again); err != nil {
		return err
	}
	for _, name := range names {
		first, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return err
		}
		second, err := os.ReadFile(filepath.Join(again, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(first, second) {
			return fmt.Errorf("dist: %s differs when it is made a second time", name)
		}
		fmt.Printf("%9d  %s\n", len(first), name)
	}
	fmt.Printf("%s: made twice, with the same bytes\n", out)
	return nil
}
