package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"replicator/internal/guide"
	"replicator/internal/guide/rewrite"
	"replicator/internal/launch"
	"replicator/internal/servers"
)

// profiledCells is how many rows each profiled load has: so many that the program's start hardly shows in the profile.
const profiledCells = 500_000

// gatherProfile writes a profile for profile-guided optimization (package guide) to the file that the arguments name.
// It runs a profiling build in the tasks of `bench peers` and in four stages of the bench.
func gatherProfile(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("profile: name the file to write, " + guide.Path)
	}
	show := newScreen(progress)
	dir, program, remove, err := build(ctx, launch.BuildProfiled, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	profiles := filepath.Join(dir, "profiles")
	if err := errors.Join(os.Mkdir(profiles, 0o755), os.Setenv(guide.Variable, profiles)); err != nil {
		return err
	}
	cells := strconv.Itoa(profiledCells)
	backlogs, err := parsePeers([]string{"-only", "replicator", "-runs", "1", "-cells", cells}, progress)
	if err != nil {
		return err
	}
	if err := (&campaign{}).runAll(ctx, backlogs, dir, program, show); err != nil {
		return err
	}
	stages, err := parse([]string{"-only", "distinct,fill,elastic,latency", "-cells", cells}, progress)
	if err != nil {
		return err
	}
	if _, err := measureKind(ctx, stages, servers.MySQL, program, show); err != nil {
		return err
	}
	return mergeProfiles(profiles, args[0], out)
}

// mergeProfiles merges a directory's profiles into one file. It changes an existing file only after all profiles were
// read.
func mergeProfiles(dir, to string, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil {
		return err
	}
	var merged bytes.Buffer
	if err := rewrite.Merge(&merged, files); err != nil {
		return err
	}
	if err := os.WriteFile(to, merged.Bytes(), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: merged from %d runs of the program\n", to, len(files))
	return err
}
