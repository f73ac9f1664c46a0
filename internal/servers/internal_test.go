package servers

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Forget clears the failed fetches that the process remembers, so that a test can change what the machine has.
func Forget() {
	failed.Lock()
	defer failed.Unlock()
	clear(failed.kinds)
}

func TestPickedPortsAreOneOwnersAndBelowTheEphemeralOnes(t *testing.T) {
	var mu sync.Mutex
	var leases []*portLease
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 10 {
				l, err := leasePort(0)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				leases = append(leases, l)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for _, l := range leases {
		if l.port >= highPort || l.port < 1024 || seen[l.port] {
			t.Errorf("port %d was picked twice or is out of range", l.port)
		}
		seen[l.port] = true
		if _, err := leasePort(l.port); err == nil {
			t.Errorf("port %d was given to a second owner", l.port)
		}
	}
	for _, l := range leases {
		if err := l.release(); err != nil {
			t.Error(err)
		}
	}
	again, err := leasePort(leases[0].port)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestAPortThatIsListenedOnIsTaken(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "0.0.0.0"} {
		l, err := net.Listen("tcp4", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leasePort(n); err == nil || !strings.Contains(err.Error(), port) {
			t.Errorf("%s: the error is %v", host, err)
		}
		l.Close()
	}
}

func TestOnceKeepsNothingOfAFailedOrKilledBuild(t *testing.T) {
	cache := t.TempDir()
	quiet := func(string) {}
	// A killed build leaves this.
	if err := os.MkdirAll(filepath.Join(cache, "x.part", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	_, err := once(t.Context(), cache, "x", quiet, func(dir string, log *os.File) error {
		_, _ = log.WriteString("what went wrong\n")
		return boom
	})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "what went wrong") {
		t.Errorf("the error is %v", err)
	}
	if isDir(filepath.Join(cache, "x")) {
		t.Error("a failed build looks finished")
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	builds := 0
	for range 8 {
		wg.Go(func() {
			dir, err := once(t.Context(), cache, "x", quiet, func(dir string, _ *os.File) error {
				mu.Lock()
				defer mu.Unlock()
				builds++
				left, err := os.ReadDir(dir)
				if len(left) > 0 {
					t.Error("the build began on what another left")
				}
				return err
			})
			if err != nil || !isDir(dir) {
				t.Error(dir, err)
			}
		})
	}
	wg.Wait()
	if builds != 1 {
		t.Errorf("built %d times", builds)
	}
}

func TestCopyTreeKeepsBytesAndModes(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	data := append(make([]byte, 200<<10), "tail"...)
	data[70<<10] = 1
	if err := errors.Join(os.Mkdir(filepath.Join(from, "d"), 0o700),
		os.WriteFile(filepath.Join(from, "d", "f"), data, 0o600),
		os.WriteFile(filepath.Join(from, "zeros"), make([]byte, 100<<10), 0o644),
		os.WriteFile(filepath.Join(from, "empty"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"d/f": data, "zeros": make([]byte, 100<<10), "empty": nil} {
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d (%v)", name, len(got), len(want), err)
		}
	}
	if st, err := os.Stat(filepath.Join(to, "d", "f")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v (%v)", st.Mode(), err)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]version{
		"mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))":    {9, 7, 4},
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian":   {10, 11, 19},
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-": {7, 0, 15},
	} {
		if got, ok := parseVersion(text); !ok || got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if _, ok := parseVersion("none"); ok {
		t.Error("found a release where there is none")
	}
	if !(version{10, 2, 9}).less(version{10, 11}) || (version{10, 11}).less(version{10, 11}) ||
		!(version{9, 9}).less(version{10}) {
		t.Error("releases sort wrongly")
	}
}

func TestMirrorsIn(t *testing.T) {
	const uris = `'https://tools.example/apt/dists/tools-bookworm/InRelease' a 0
'http://mirror.example/debian/dists/bookworm/InRelease' b 0
'http://mirror.example/debian/dists/bookworm-updates/InRelease' c 0
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' d 0
`
	main, security := mirrorsIn(uris, "bookworm")
	if main != "http://mirror.example/debian" || security != "http://mirror.example/debian-security" {
		t.Errorf("main %q, security %q", main, security)
	}
	if main, _ := mirrorsIn(uris, "noble"); main != "" {
		t.Errorf("another system's mirror was taken: %q", main)
	}
}

func TestNeededPackages(t *testing.T) {
	plan := bytes.NewBufferString(`NOTE: This is only a simulation!
Inst libc6 (2.36 Debian [amd64])
Inst perl-base (5.36 Debian [amd64])
Inst libperl5.36 (5.36 Debian [amd64])
Inst libdbd-mariadb-perl (1 Debian [amd64])
Inst zlib1g (1.2 Debian [amd64])
Inst mariadb-server (1:10.11 Debian [all])
Conf libc6 (2.36 Debian [amd64])
`)
	if got := neededPackages(plan, []string{"mariadb-server"}); !slices.Equal(got,
		[]string{"libc6", "zlib1g", "mariadb-server"}) {
		t.Errorf("got %v", got)
	}
}

func TestAJavaThatIsTooNewForAKindIsNotTaken(t *testing.T) {
	home := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(home, "bin"), 0o755),
		os.WriteFile(filepath.Join(home, "bin", "java"), nil, 0o755),
		os.WriteFile(filepath.Join(home, "release"), []byte("JAVA_VERSION=\"99.0.1\"\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ES_JAVA_HOME", home)
	if got := installedJava(98, 0); got != home {
		t.Errorf("of Java 98 or newer there is %q", got)
	}
	if got := installedJava(98, 99); got != "" {
		t.Errorf("of Java 98 alone there is %q", got)
	}
}

// A slow answer must not end the wait for a server, but the end of the server must.
func TestAServerThatEndsWhileItIsAskedIsNoticed(t *testing.T) {
	const silent Kind = "silent"
	specs[silent] = &spec{ping: func(ctx context.Context, _ *Server) error { <-ctx.Done(); return ctx.Err() }}
	defer delete(specs, silent)
	proc, err := startProcess(exec.Command("sh", "-c", "exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	err = (&Server{Kind: silent}).awaitAnswer(t.Context(), proc, log, 0)
	if err == nil || !strings.Contains(err.Error(), "ended while starting (exit status 3)") {
		t.Errorf("the error is %v", err)
	}
}
