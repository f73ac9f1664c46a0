package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWhetherADirectoryIsUsable is told without a trace in it, and also while a store in it is open.
func TestWhetherADirectoryIsUsable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, unusable := range []string{"/proc/nope/x", file, filepath.Join(file, "x")} {
		if err := Usable(unusable); err == nil {
			t.Errorf("%s is usable", unusable)
		}
	}
	state := filepath.Join(dir, "a", "state")
	if err := Usable(state); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
	store, err := OpenFile(state)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := Usable(state); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(state, ".*")); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
