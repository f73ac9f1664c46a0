//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// takeLock locks a directory until the returned file is closed or the process ends in any way. The kernel then releases
// the flock, so a lock can't be left behind. The file stays, with the pid of the last process that locked it.
func takeLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: the lock can't be taken: %w. Let the program's user write to the state "+
			"directory, or set checkpoint.path to another one", err)
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(lockedBy(dir, file), file.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("checkpoint: the lock of %s can't be taken: %w", dir, err), file.Close())
	}
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint: the lock of %s can't be written: %w", dir, err), file.Close())
	}
	return file, nil
}

func lockedBy(dir string, file *os.File) error {
	who := "unknown pid"
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		who = "pid " + pid
	}
	return fmt.Errorf("checkpoint: %s: %w (%s). Only one replicator can write to a state directory. Stop the other "+
		"one, or set another checkpoint.path for this one. `replicator status`, `wait` and `deadletters` work while "+
		"the other one runs", dir, ErrLocked, who)
}
