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

// profiled runs execute and writes a CPU profile. The environment variable guide.Variable names the profile's
// directory. `make profile` collects the profiles. Only builds with the tag "profile" have this function.
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
