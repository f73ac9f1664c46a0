package servers_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMissingErrorSaysWhatWasLookedForAndTheWayOut(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("REPLICATOR_SERVERS", cache)
	t.Setenv("PATH", t.TempDir())
	_, err := servers.Start(t.Context(), servers.Options{Kind: servers.Valkey})
	var missing *servers.MissingError
	if !errors.As(err, &missing) || missing.Kind != servers.Valkey || errors.Unwrap(missing) == nil {
		t.Fatalf("the error is %v", err)
	}
	for _, part := range []string{cache, "apt-get", "valkey-server in PATH", "8.0.0",
		"REPLICATOR_DEBIAN_MIRROR", "REPLICATOR_SERVERS"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	servers.Forget()
}

func TestAServerInPathIsUsedWhereNoneCanBeFetched(t *testing.T) {
	fetched := servertest.Shared(t, servers.MariaDB1011)
	program, err := servers.Program(servers.MariaDB1011, "mariadbd")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(filepath.Dir(program))

	// The directory has the same server as a package would install it, and PATH has no apt.
	usr := filepath.Join(t.TempDir(), "usr")
	sh := filepath.Join(usr, "sbin", "mariadbd")
	if err := errors.Join(os.MkdirAll(filepath.Dir(sh), 0o755),
		os.Symlink(filepath.Join(root, "usr/share"), filepath.Join(usr, "share")),
		os.WriteFile(sh, []byte("#!/bin/sh\nexec "+program+" \"$@\"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(t.TempDir(), "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "dirname", "readlink"} {
		if err := os.Symlink(filepath.Join("/usr/bin", name), filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("REPLICATOR_SERVERS", t.TempDir())
	t.Setenv("PATH", filepath.Dir(sh)+":"+tools)
	defer servers.Forget()
	var said []string
	s, err := servers.Start(context.Background(), servers.Options{
		Kind: servers.MariaDB1011, Small: true, Progress: func(text string) { said = append(said, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != fetched.Version || !strings.Contains(strings.Join(said, "\n"), sh) {
		t.Errorf("version %s, said %q", s.Version, said)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = servers.Start(context.Background(), servers.Options{Kind: servers.MariaDB118})
	if err == nil || !strings.Contains(err.Error(), "has release "+s.Version) {
		t.Errorf("an older release in PATH: %v", err)
	}
}
