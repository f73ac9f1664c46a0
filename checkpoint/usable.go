package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Usable reports why OpenFile could not make or write the store in a directory. It leaves nothing there, and a store
// that is in use may be asked: its lock is not taken.
func Usable(dir string) error {
	at := filepath.Clean(dir)
	_, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) { // OpenFile makes what is missing
		at = filepath.Dir(at)
		_, err = os.Stat(at)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: the state directory can't be used: %w", err)
	}
	probe, err := os.CreateTemp(at, ".replicator-check-*") // rights alone do not tell of a file system that is read-only
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return fmt.Errorf("checkpoint: the state directory %s can't be made or written: %w", dir, err)
	}
	for _, name := range []string{lockName, lettersName} { // may be another user's, who ran the program before
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		switch {
		case err == nil:
			err = file.Close()
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
		if err != nil {
			return fmt.Errorf("checkpoint: the state directory can't be written: %w", err)
		}
	}
	return nil
}
