//go:build profile

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"replicator/internal/guide"
)

// profiled runs execute and writes a CPU profile into the directory that the environment variable guide.Variable names.
// Only builds with the tag "profile" do that; `make profile` collects the profiles.
func profiled(execute func() int) (status int) {
	file, err := os.Create(filepath.Join(os.Getenv(guide.Variable), fmt.Sprintf("%d.pprof", os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err == nil {
		status = execute()
		pprof.StopCPUProfile()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "replicator: writing the profile:", err)
		return exitFailed
	}
	return status
}
