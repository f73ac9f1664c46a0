package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"replicator/internal/pause"
)

const (
	cacheVariable  = "REPLICATOR_SERVERS"
	mirrorVariable = "REPLICATOR_DEBIAN_MIRROR"
)

// layout is the version of the cache's layout, and a part of its path. A layout that older programs can't read needs a
// new version.
const layout = "v1"

// CacheDir returns the directory with the fetched and unpacked servers.
func CacheDir() (string, error) {
	dir := os.Getenv(cacheVariable)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("servers: no directory for a cache: %w. Set %s to a directory", err, cacheVariable)
		}
		dir = filepath.Join(base, "replicator-servers")
	}
	dir, err := filepath.Abs(filepath.Join(dir, layout))
	if err != nil {
		return "", fmt.Errorf("servers: cache: %w", err)
	}
	return dir, nil
}

// once returns the directory cache/name. If it does not exist, once runs `build` in an empty directory, and then
// renames this directory to cache/name. Concurrent callers, in this process or others, wait for the first caller.
func once(ctx context.Context, cache, name string, progress func(string),
	build func(dir string, log *os.File) error) (string, error) {
	final := filepath.Join(cache, name)
	if isDir(final) {
		return final, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("servers: cache: %w. Set %s to a writable directory", err, cacheVariable)
	}
	unlock, err := lockFile(ctx, final+".lock", func() { progress("waiting for another process that is fetching it") })
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(final) {
		return final, nil
	}
	part := final + ".part"
	if err := errors.Join(os.RemoveAll(part), os.Mkdir(part, 0o755)); err != nil {
		return "", fmt.Errorf("servers: cache: %w", err)
	}
	log, err := os.Create(final + ".log")
	if err != nil {
		return "", fmt.Errorf("servers: cache: %w", err)
	}
	defer log.Close()
	if err := build(part, log); err != nil {
		_ = os.RemoveAll(part) // if this fails, the next caller removes the directory
		return "", fmt.Errorf("%w%s", err, tail(log.Name(), 0))
	}
	if err := os.Rename(part, final); err != nil {
		return "", fmt.Errorf("servers: cache: %w", err)
	}
	return final, nil
}

// lockFile locks the file at path, which it creates if needed, and waits for the lock until ctx ends. If it must wait,
// it calls `waiting` once. The kernel releases the lock when the process ends.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("servers: lock: %w", err)
	}
	for first := true; ; first = false {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("servers: lock %s: %w", path, err)
		}
		if first && waiting != nil {
			waiting()
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			f.Close()
			return nil, fmt.Errorf("servers: waiting for the lock %s: %w", path, err)
		}
	}
}

// tryLock is lockFile without waiting. It returns nil and no error if another process has the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("servers: lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("servers: lock %s: %w", path, err)
	}
	return f, nil
}

// tail returns the end of a log, but nothing before offset, as a suffix for an error message.
func tail(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 3000
	if st, err := f.Stat(); err == nil && st.Size()-most > offset {
		offset = st.Size() - most
	}
	text, err := io.ReadAll(io.NewSectionReader(f, offset, most))
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return "; the log " + path + " is empty"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return "; the end of " + path + ":\n  " + strings.Join(lines, "\n  ")
}

// copyTree copies a directory with its modes. Runs of zeros become holes: a new database is mostly zeros, and every
// test that starts its own server copies one.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.Mkdir(target, info.Mode().Perm()|0o700)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case d.Type().IsRegular():
			return copySparse(path, target, info)
		}
		return nil // sockets and the like belong to a running server, not to the data
	})
}

func copySparse(from, to string, info fs.FileInfo) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(in, buf)
		if !bytes.Equal(buf[:n], zero[:n]) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
