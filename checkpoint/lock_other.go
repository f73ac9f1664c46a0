//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package checkpoint

import (
	"errors"
	"os"
)

// takeLock always fails, because without flock two replicators could write to one directory.
func takeLock(string) (*os.File, error) {
	return nil, errors.New("checkpoint: this system has no flock, which the file store needs. " +
		`Use checkpoint.store = "mysql"`)
}
