package servertest

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"replicator/internal/servers"
)

// tally counts the tests that used each server. It counts a test once for each server.
type tally struct {
	mu    sync.Mutex
	tests map[string]map[string]bool // by server, such as "mysql 9.7.4": the names of its tests
}

var used tally

// add counts the test for a server. It writes the test to the count file at once, so that a later crash of the binary
// does not lose it.
func (u *tally) add(t testing.TB, s *servers.Server) {
	t.Helper()
	u.note(t, server(s))
}

func (u *tally) note(t testing.TB, server string) {
	t.Helper()
	if u.record(server, t.Name()) {
		if err := appendCount(server, t.Name()); err != nil {
			t.Errorf("servertest: %s: %v", countVariable, err)
		}
	}
}

// record notes that a test used a server, and reports whether that was new.
func (u *tally) record(server, test string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tests == nil {
		u.tests = map[string]map[string]bool{}
	}
	if u.tests[server] == nil {
		u.tests[server] = map[string]bool{}
	}
	fresh := !u.tests[server][test]
	u.tests[server][test] = true
	return fresh
}

// String returns the line that Main prints. It returns "" if no test used a server.
func (u *tally) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var parts []string
	for _, server := range slices.Sorted(maps.Keys(u.tests)) {
		noun := "tests"
		if len(u.tests[server]) == 1 {
			noun = "test"
		}
		parts = append(parts, fmt.Sprintf("%s: %d %s", server, len(u.tests[server]), noun))
	}
	if len(parts) == 0 {
		return ""
	}
	return "servers: " + strings.Join(parts, ", ")
}

func server(s *servers.Server) string { return string(s.Kind) + " " + s.Version }

// appendCount adds a line to the count file if there is one: server, package directory and test, separated by tabs. It
// writes the line at once and with O_APPEND, so that lines of several processes don't mix.
func appendCount(server, test string) error {
	path := os.Getenv(countVariable)
	if path == "" {
		return nil
	}
	dir, err := os.Getwd() // go test runs a binary in its package's directory
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\n", server, filepath.Clean(dir), test)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// WriteCount writes how many tests used each server, according to a count file. A missing file means that no test used
// a server.
func WriteCount(w io.Writer, path string) error {
	var u tally
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		_, err = fmt.Fprintln(w, "servers: no test used a real server")
		return err
	}
	if err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if server, test, ok := strings.Cut(lines.Text(), "\t"); ok {
			u.record(server, test)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("servertest: %s: %w", path, err)
	}
	_, err = fmt.Fprintln(w, u.String())
	return err
}
