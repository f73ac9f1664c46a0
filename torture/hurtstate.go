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

func stateFaults() map[string]fault {
	return map[string]fault{
		"lose state": {about: "the state directory is gone after a crash", fits: withFile,
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.end(syscall.SIGKILL)
				if err := w.clearState(); err != nil {
					w.say("lose state: %v", err) // the directory may be read-only
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

// clearState removes everything in the state directory. It keeps the directory, which may be a mount point.
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

// stateAway moves the state directory away, as if a network file system were gone. The end of the fault moves it back.
func (w *world) stateAway() (heal, error) {
	away := w.stateDir() + ".away"
	if err := os.Rename(w.stateDir(), away); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EBUSY) {
			return nil, errSkipped // the directory is missing, already moved away, or its own file system
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		err := os.Rename(away, w.stateDir())
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOTDIR) {
			return os.RemoveAll(away) // the replicator has made a new state directory, which replaces `away`
		}
		return err
	}, nil
}

// stateBlocked replaces the state directory by a file and starts the program, which may end at once. The end of the
// fault restores the directory and restarts the program.
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

func (p Plan) needsDisk() bool {
	for _, f := range p.Faults {
		if f.Name == stateFull || f.Name == stateReadOnly {
			return true
		}
	}
	return false
}

// mountState mounts a file system of half a megabyte as the state directory. The program's state nearly fills it.
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

// fillState writes a file until the state directory's file system is full.
func (w *world) fillState() (heal, error) {
	name := filepath.Join(w.stateDir(), "filler")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil { // the file system is read-only
		return nil, errSkipped
	}
	defer f.Close()
	for block := bytes.Repeat([]byte("x"), 512); ; {
		if _, err := f.Write(block); err != nil {
			break // the file system is full
		}
	}
	return func(context.Context) error {
		// Another fault may have removed the file.
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}

// stateReadOnly remounts the state directory read-only. A remount fails while the program has files open, so
// stateReadOnly kills the program before the remount and starts it afterwards. The end of the fault makes the directory
// writable in the same way.
func (w *world) stateReadOnly(ctx context.Context) (heal, error) {
	w.end(syscall.SIGKILL)
	if err := remount(w.stateDir(), readOnly); err != nil {
		return nil, errors.Join(w.start(ctx), errSkipped) // another command of the program has a file open
	}
	return func(ctx context.Context) error {
		w.end(syscall.SIGKILL)
		if err := remount(w.stateDir(), writable); err != nil {
			return err
		}
		return w.start(ctx)
	}, w.start(ctx)
}

// oldState copies the state directory. The end of the fault restores the copy.
func oldState(ctx context.Context, w *world, f Fault) (heal, error) {
	w.end(syscall.SIGKILL)
	kept := filepath.Join(w.program.Dir, fmt.Sprintf("kept%d", f.Arg))
	if err := os.RemoveAll(kept); err != nil {
		return nil, err
	}
	if _, err := os.Stat(w.stateDir()); err != nil { // nothing was saved yet
		return healed(w.start(ctx))
	}
	if err := copyDir(kept, w.stateDir()); err != nil { // another fault has replaced the directory by a file
		w.say("old state: %v", err)
		return nil, errors.Join(w.start(ctx), errSkipped)
	}
	return func(ctx context.Context) error {
		w.end(syscall.SIGKILL)
		err := w.clearState()
		if err == nil {
			err = copyDir(w.stateDir(), kept)
		}
		if err != nil { // until another fault is healed, the directory is read-only, full, or a file
			w.say("old state: %v", err)
		}
		return w.start(ctx)
	}, w.start(ctx)
}
