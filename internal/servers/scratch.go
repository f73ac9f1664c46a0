package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// scratch is a directory that this package chose for a server. Beside it lies a lock that the process
// holds, so that the directories of processes that were killed can be told from those in use.
type scratch struct {
	dir  string
	lock *os.File
}

const lockSuffix = ".lock"

// newScratch makes one below root, and removes those that killed processes left there.
func newScratch(ctx context.Context, root string, kind Kind) (*scratch, error) {
	parent := filepath.Join(root, fmt.Sprintf("replicator-servers-%d", os.Getuid()))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	// Without this lock another process could sweep a lock file between its making and its locking.
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
		return nil, fmt.Errorf("servers: %s%s is locked by another process; remove it", dir, lockSuffix)
	}
	return &scratch{dir: dir, lock: lock}, nil
}

// sweep removes the directories in parent whose process is gone. What can't be removed is left to the
// next sweep: it is no reason not to start a server.
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

// remove removes the directory, then its lock file, then gives up the lock, in this order: so a sweep
// meanwhile finds either the lock held or nothing.
func (s *scratch) remove() error {
	err := errors.Join(os.RemoveAll(s.dir), os.Remove(s.lock.Name()), s.lock.Close())
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}
