package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// stateFaults disturb the state directory.
func stateFaults() map[string]fault {
	return map[string]fault{
		"lose state": {about: "the state directory is gone after a crash", fits: withFile,
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.end(syscall.SIGKILL)
				if err := w.clearState(); err != nil {
					w.say("lose state: %v", err) // it is read-only
				}
				return healed(w.start(ctx))
			}},
		"old state": {about: "an older copy of the state directory comes back", fits: withFile, begin: oldState},
		"state away": {about: "the state directory is missing for a while, while the program runs", fits: withFile,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) { return w.stateAway() }},
		"state down away": {about: "a file has the state directory's name while the program starts", fits: withFile,
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) { return w.stateBlocked(ctx) }},
		stateFull: {about: "the disk of the state directory is full for a while", fits: withFile, mounts: true,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) { return w.fillState() }},
		stateReadOnly: {about: "the disk of the state directory is read-only for a while", fits: withFile, mounts: true,
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) { return w.stateReadOnly(ctx) }},
	}
}

const (
	stateFull     = "state full"
	stateReadOnly = "state read-only"
)

// clearState removes everything in the directory, which may be its own file system.
func (w *world) clearState() error {
	all, err := os.ReadDir(w.stateDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range all {
		if err := os.RemoveAll(filepath.Join(w.stateDir(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// stateAway moves the directory away, as if a network file system were gone.
func (w *world) stateAway() (heal, error) {
	away := w.stateDir() + ".away"
	if err := os.Rename(w.stateDir(), away); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EBUSY) {
			return nil, errSkipped // it does not exist yet, is already gone, or is its own file system
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		err := os.Rename(away, w.stateDir())
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOTDIR) {
			return os.RemoveAll(away) // a program that started meanwhile made a new one
		}
		return err
	}, nil
}

// stateBlocked starts the program, which may end at once, and starts it again later.
func (w *world) stateBlocked(ctx context.Context) (heal, error) {
	w.end(syscall.SIGKILL)
	away := w.stateDir() + ".blocked"
	if err := os.Rename(w.stateDir(), away); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EBUSY) {
			return healed(w.start(ctx))
		}
		return nil, err
	}
	if err := os.WriteFile(w.stateDir(), nil, 0o600); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		w.end(syscall.SIGKILL)
		if err := errors.Join(os.Remove(w.stateDir()), os.Rename(away, w.stateDir())); err != nil {
			return err
		}
		return w.start(ctx)
	}, w.start(ctx)
}

// needsDisk reports whether a fault of the plan needs the state directory to be its own file system.
func (p Plan) needsDisk() bool {
	for _, f := range p.Faults {
		if f.Name == stateFull || f.Name == stateReadOnly {
			return true
		}
	}
	return false
}

// mountState mounts a file system of half a megabyte as the state directory. The state nearly fills it.
func (w *world) mountState() error {
	if err := os.Mkdir(w.stateDir(), 0o700); err != nil {
		return err
	}
	if err := mountSmall(w.stateDir()); err != nil {
		return err
	}
	w.mounted = true
	return nil
}

// fillState writes a file until the file system is full.
func (w *world) fillState() (heal, error) {
	name := filepath.Join(w.stateDir(), "filler")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil { // it is read-only
		return nil, errSkipped
	}
	defer f.Close()
	for block := bytes.Repeat([]byte("x"), 512); ; {
		if _, err := f.Write(block); err != nil {
			break // it is full
		}
	}
	return func(context.Context) error {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // another fault may have removed it
			return err
		}
		return nil
	}, nil
}

// stateReadOnly remounts the file system read-only. A remount fails while the program has files open, so the program is
// killed before it and started after it. Healing does the same.
func (w *world) stateReadOnly(ctx context.Context) (heal, error) {
	w.end(syscall.SIGKILL)
	if err := remount(w.stateDir(), readOnly); err != nil {
		return nil, errors.Join(w.start(ctx), errSkipped) // a command beside the program has a file open
	}
	return func(ctx context.Context) error {
		w.end(syscall.SIGKILL)
		if err := remount(w.stateDir(), writable); err != nil {
			return err
		}
		return w.start(ctx)
	}, w.start(ctx)
}

// oldState copies the state directory, and later restores the copy.
func oldState(ctx context.Context, w *world, f Fault) (heal, error) {
	w.end(syscall.SIGKILL)
	kept := filepath.Join(w.program.Dir, fmt.Sprintf("kept%d", f.Arg))
	if err := os.RemoveAll(kept); err != nil {
		return nil, err
	}
	if _, err := os.Stat(w.stateDir()); err != nil { // nothing was saved yet
		return healed(w.start(ctx))
	}
	if err := copyDir(kept, w.stateDir()); err != nil { // another fault has put a file there
		w.say("old state: %v", err)
		return nil, errors.Join(w.start(ctx), errSkipped)
	}
	return func(ctx context.Context) error {
		w.end(syscall.SIGKILL)
		err := w.clearState()
		if err == nil {
			err = copyDir(w.stateDir(), kept)
		}
		if err != nil { // it is read-only, full, or a file, until that is healed
			w.say("old state: %v", err)
		}
		return w.start(ctx)
	}, w.start(ctx)
}
