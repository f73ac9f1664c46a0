package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// scratch is a directory that this package chose for a server. The process holds the lock on a lock file next to the
// directory. So sweep can tell directories in use from the directories of killed processes.
type scratch struct {
	dir  string
	lock *os.File
}

const lockSuffix = ".lock"

// newScratch creates a scratch directory below root. It also removes scratch directories that killed processes left
// below root.
func newScratch(ctx context.Context, root string, kind Kind) (*scratch, error) {
	parent := filepath.Join(root, fmt.Sprintf("replicator-servers-%d", os.Getuid()))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	// Without this lock, another process could remove a lock file between its creation and its locking.
	unlock, err := lockFile(ctx, filepath.Join(parent, "sweeping"), nil)
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweep(parent)
	dir, err := os.MkdirTemp(parent, string(kind)+"-")
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	lock, err := tryLock(dir + lockSuffix)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, fmt.Errorf("servers: %s%s is locked by another process. Remove this file", dir, lockSuffix)
	}
	return &scratch{dir: dir, lock: lock}, nil
}

// sweep removes the directories in parent whose process has ended. It ignores errors, which must not prevent a server's
// start. The next sweep tries again.
func sweep(parent string) {
	locks, err := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	if err != nil {
		return
	}
	for _, path := range locks {
		lock, err := tryLock(path)
		if err != nil || lock == nil {
			continue
		}
		if os.RemoveAll(strings.TrimSuffix(path, lockSuffix)) == nil {
			_ = os.Remove(path)
		}
		lock.Close()
	}
}

// remove removes the directory, then its lock file, and then releases the lock. In this order, a concurrent sweep finds
// either a held lock or no lock file.
func (s *scratch) remove() error {
	err := errors.Join(os.RemoveAll(s.dir), os.Remove(s.lock.Name()), s.lock.Close())
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}
