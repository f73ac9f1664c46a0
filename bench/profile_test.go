package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestAProfileThatCantBeMadeLeavesTheOldOne(t *testing.T) {
	dir := t.TempDir()
	broken, old := filepath.Join(dir, "1.pprof"), filepath.Join(dir, "guide.pgo")
	for _, name := range []string{broken, old} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := mergeProfiles(dir, old, io.Discard); err == nil {
		t.Error("what is no profile was merged")
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "x" {
		t.Errorf("the old one holds %q, %v", text, err)
	}
}
