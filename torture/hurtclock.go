package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"replicator/internal/pause"
)

// A process's clock can't be changed without changing the machine's clock. So `go build -overlay` builds the program
// with its own time.Now, which adds an offset from a file. Only the wall clock jumps, as it does when a machine's time
// is set, because timers and deadlines use the monotonic clock.

func clockFaults() map[string]fault {
	return map[string]fault{
		"clock": {about: "the wall clock of the program's machine jumps, and sometimes jumps back later", skewed: true,
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				if err := w.setClock(ctx, jumps[f.Arg%uint64(len(jumps))]); err != nil || f.Arg%2 == 0 {
					return nil, err
				}
				return func(ctx context.Context) error { return w.setClock(ctx, 0) }, nil
			}},
		"source clock": {about: "the wall clock of the source's machine jumps, so events are logged with other times",
			begin: func(_ context.Context, w *world, f Fault) (heal, error) {
				w.load.skew.Store(int64(jumps[f.Arg%uint64(len(jumps))] / time.Second))
				return func(context.Context) error { w.load.skew.Store(0); return nil }, nil
			}},
	}
}

var jumps = []time.Duration{-24 * time.Hour, -90 * time.Second, -time.Second, 90 * time.Second, 400 * 24 * time.Hour}

// clockVariable is the environment variable with the path of the clock offset file. The file contains the offset in
// seconds. Only programs that were built with skewedClock read it.
const clockVariable = "REPLICATOR_TORTURE_CLOCK"

const (
	rightNow  = "\tsec, nsec, mono := runtimeNow()\n"
	skewedNow = rightNow + "\tsec += Skew.Load()\n"

	skewDeclared = "\n// Skew is how many seconds the wall clock is ahead.\nvar Skew atomic.Int64\n"

	// skewFollowed is a source file that is added to the program. It sets the program's clock by the clock offset file.
	// After each change, it writes the new offset to a second file, as a confirmation.
	skewFollowed = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	file := os.Getenv("` + clockVariable + `")
	look := func() {
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n != time.Skew.Swap(n) {
			_ = os.WriteFile(file+"."+strconv.Itoa(os.Getpid()), text, 0o600)
		}
	}
	look()
	go func() {
		for {
			time.Sleep(10 * time.Millisecond)
			look()
		}
	}()
}
`
)

// skewedClock returns the build flags for a program whose clock can jump.
func skewedClock(ctx context.Context, root, dir string) (flags []string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	file := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	now, ok := replaceOnce(string(text), rightNow, skewedNow)
	if ok {
		now, ok = replaceOnce(now, "\t_ \"unsafe\"", "\t\"sync/atomic\"\n\t_ \"unsafe\"")
	}
	if !ok {
		return nil, fmt.Errorf("%s has changed, so the clock can't be patched. Adapt torture/hurtclock.go", file)
	}
	overlay, err := writeOverlay(dir, map[string]string{file: now + skewDeclared,
		filepath.Join(root, "cmd", "replicator", "torture_clock.go"): skewFollowed})
	return []string{"-trimpath", "-overlay", overlay}, err
}

// replaceOnce replaces the first `old` in text by `with`. It also reports whether text contains `old` exactly once.
func replaceOnce(text, old, with string) (string, bool) {
	return strings.Replace(text, old, with, 1), strings.Count(text, old) == 1
}

// writeOverlay writes a file for `go build -overlay` that replaces or adds the files in texts, and returns its path.
func writeOverlay(dir string, texts map[string]string) (string, error) {
	replaced := map[string]string{}
	for path, text := range texts {
		replaced[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replaced), filepath.Base(path)))
		if err := os.WriteFile(replaced[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

func clockFile(dir string) string { return filepath.Join(dir, "clock") }

func skewedBy(file string) []string { return append(os.Environ(), clockVariable+"="+file) }

// setClock sets the clocks of all programs of the run. If the main program runs, it waits until the program confirms
// the offset, two seconds at most.
func (w *world) setClock(ctx context.Context, ahead time.Duration) error {
	file, seconds := clockFile(w.program.Dir), strconv.FormatInt(int64(ahead/time.Second), 10)
	if err := os.WriteFile(file+".next", []byte(seconds), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".next", file); err != nil {
		return err
	}
	// Wait two seconds at most, because a frozen program can't confirm the new clock offset.
	for end := time.Now().Add(2 * time.Second); w.running != nil && time.Now().Before(end); {
		text, err := os.ReadFile(file + "." + strconv.Itoa(w.running.Pid()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if string(text) == seconds {
			return nil
		}
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
