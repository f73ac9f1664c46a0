package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"replicator"
)

var _ replicator.Store = (*File)(nil)

const (
	lockName        = "lock"
	checkpointsName = "checkpoints.json"
	lettersName     = "deadletters.jsonl"
	layoutsName     = "layouts.json"

	// format is the version of the files. A newer program may write a higher version.
	format = 1
)

// File is a store in a directory: checkpoints.json, deadletters.jsonl, layouts.json and lock.
type File struct {
	dir     string
	lock    *os.File
	letters *letters

	mu          sync.Mutex                      // guards the fields below
	checkpoints map[place]replicator.Checkpoint // the content of checkpoints.json
	layouts     []keptLayout                    // the content of layouts.json: columns that tables had earlier
	closed      bool
}

// OpenFile opens the store in a directory, which it creates if necessary, and takes its lock.
func OpenFile(dir string) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("checkpoint: the state directory can't be created: %w", err)
	}
	if err := syncDir(filepath.Dir(filepath.Clean(dir))); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("checkpoint: the state directory can't be made durable: %w", err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	f := &File{dir: dir, lock: lock}
	if f.checkpoints, err = readCheckpoints(dir); err == nil {
		f.layouts, err = readLayouts(dir)
	}
	if err == nil {
		f.letters, err = openLetters(filepath.Join(dir, lettersName))
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// SavedAt returns when checkpoints were last saved in a directory. It returns zero if none were saved.
func SavedAt(dir string) (time.Time, error) {
	info, err := os.Stat(filepath.Join(dir, checkpointsName))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

type document struct {
	Format      int                     `json:"format"`
	Checkpoints []replicator.Checkpoint `json:"checkpoints"`
}

func readCheckpoints(dir string) (map[place]replicator.Checkpoint, error) {
	path := filepath.Join(dir, checkpointsName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[place]replicator.Checkpoint{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	all, err := parseCheckpoints(data)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	return all, nil
}

// wayOut ends the errors about an unusable file.
const wayOut = "Restore it from a backup, or move it away. Every view then continues from its mark in its sink, " +
	"or is filled again"

func parseCheckpoints(data []byte) (map[place]replicator.Checkpoint, error) {
	var d document
	in := json.NewDecoder(bytes.NewReader(data))
	if err := in.Decode(&d); err != nil {
		return nil, fmt.Errorf("is damaged (%w). %s", err, wayOut)
	}
	switch {
	case d.Format > format:
		return nil, fmt.Errorf("has format %d, which a newer version wrote. This version knows format %d. "+
			"Use the newer version", d.Format, format)
	case d.Format < 1 || in.More():
		return nil, fmt.Errorf("is damaged (it is not a list of checkpoints). %s", wayOut)
	}
	all := make(map[place]replicator.Checkpoint, len(d.Checkpoints))
	for _, c := range d.Checkpoints {
		if _, twice := all[placeOf(c)]; twice || c.View == "" {
			return nil, fmt.Errorf("is damaged (it has two checkpoints of view %q, or one without a view). %s",
				c.View, wayOut)
		}
		all[placeOf(c)] = c
	}
	return all, nil
}

// write replaces checkpoints.json, and then the checkpoints in memory. The caller holds mu.
func (f *File) write(all map[place]replicator.Checkpoint) error {
	data, err := json.MarshalIndent(document{Format: format, Checkpoints: sorted(all)}, "", "  ")
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := f.holds(); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(f.dir, checkpointsName), append(data, '\n')); err != nil {
		return fmt.Errorf("in the state directory: %w", err)
	}
	f.checkpoints = all
	return nil
}

// holds checks that the directory is still the one that was locked. If that directory was removed or replaced, another
// process may hold the lock of the new directory, and dead letters would go to a deleted file.
func (f *File) holds() error {
	held, err := f.lock.Stat()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	switch there, err := os.Stat(filepath.Join(f.dir, lockName)); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(held, there):
		return fmt.Errorf("checkpoint: the state directory %s, or the lock in it, was removed or replaced since this "+
			"program locked it. Put it back, or restart the program. After a restart, every view continues from its "+
			"mark in its sink", f.dir)
	case err != nil:
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// replaceFile replaces a file. After a crash the file has either all of its old content or all of the new content.
func replaceFile(path string, data []byte) error {
	temporary := path + ".new" // the lock ensures that there is only one writer
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable. A rename changes the directory, so the directory must be synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *File) Checkpoints(context.Context) ([]replicator.Checkpoint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	return copied(sorted(f.checkpoints)), nil
}

// copied copies the checkpoints' maps, so that the caller may change them.
func copied(checkpoints []replicator.Checkpoint) []replicator.Checkpoint {
	list := make([]replicator.Checkpoint, len(checkpoints))
	for i, c := range checkpoints {
		c.Fill = maps.Clone(c.Fill)
		list[i] = c
	}
	return list
}

func (f *File) Save(_ context.Context, checkpoints []replicator.Checkpoint) error {
	if err := valid(checkpoints); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	all := maps.Clone(f.checkpoints)
	for _, c := range copied(checkpoints) {
		all[placeOf(c)] = c
	}
	return f.write(all)
}

func (f *File) Forget(_ context.Context, view string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	all := maps.Clone(f.checkpoints)
	maps.DeleteFunc(all, func(p place, _ replicator.Checkpoint) bool { return p.view == view })
	if len(all) == len(f.checkpoints) {
		return nil
	}
	return f.write(all)
}

func (f *File) Bury(_ context.Context, list []replicator.DeadLetter) error {
	return f.letters.bury(list)
}

func (f *File) Raise(_ context.Context, view, source string, cells []replicator.Cell) error {
	return f.letters.raise(view, source, cells)
}

func (f *File) Known(_ context.Context, view, source string, cell replicator.Cell) (int64, error) {
	return f.letters.index.number(view, source, cell), nil
}

func (f *File) RaiseKnown(_ context.Context, view, source string, cell replicator.Cell, number int64) error {
	return f.letters.raiseKnown(view, source, cell, number)
}

func (f *File) List(_ context.Context, view string) iter.Seq2[replicator.DeadLetter, error] {
	return f.letters.list(view)
}

func (f *File) Drop(_ context.Context, ids []string) (int, error) { return f.letters.drop(ids) }

func (f *File) Count(context.Context) (map[string]int, error) { return f.letters.index.count(), nil }

// Close releases the lock. Closing again does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(f.letters.close(), f.lock.Close())
}
