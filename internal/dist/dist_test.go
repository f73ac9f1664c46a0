package dist

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"replicator/internal/guide"
)

// release is the directory of a release. `make dist` makes one, and runs these tests on it.
var release = flag.String("release", "", "the `directory` of a release to test")

// made returns the path of the release's file for this machine that has a suffix.
func made(t *testing.T, suffix string) string {
	t.Helper()
	if *release == "" {
		t.Skip("make dist makes a release, and tests it")
	}
	pattern := filepath.Join(*release, "replicator_*_"+runtime.GOOS+"_"+runtime.GOARCH+suffix)
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

func TestAnArchiveIsTheSameWhoeverMakesIt(t *testing.T) {
	at := time.Unix(1700000000, 0)
	var first []byte
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
		dir := t.TempDir()
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.WriteFile(path, []byte(name), 0o644), os.Chtimes(path, at, at)); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "x.tar.gz")
		if err := archive(path, dir, "x", names); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = content
		} else if !bytes.Equal(first, content) {
			t.Error("other bytes")
		}
	}
}

func TestABillNamesEveryModule(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bill.json")
	if err := writeBill(path, self, Release{Version: "1.2.3", Time: time.Unix(1700000000, 0)}); err != nil {
		t.Fatal(err)
	}
	var b bill
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil || b.Metadata.Component.Version != "1.2.3" ||
		b.Components[0].PURL != "pkg:golang/std@"+runtime.Version() {
		t.Errorf("%v: %s", err, text)
	}
}

func TestTheReleasedArchiveRuns(t *testing.T) {
	file, err := os.Open(made(t, ".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, packed := t.TempDir(), tar.NewReader(zipped)
	for {
		h, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(packed)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), content, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "replicator"), "version").CombinedOutput()
	if want := regexp.MustCompile(`^replicator [0-9.]+\S* [0-9a-f]{12} go`); err != nil || !want.Match(out) {
		t.Errorf("version: %v: %s", err, out)
	}
}

// installed unpacks the deb into an empty directory, and returns the directory.
func installed(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", made(t, ".deb"), root).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	return root
}

// The unit's command line must run in a root directory with only the package's files. If the program needed a library,
// a shell or a file from elsewhere, it would fail there.
func TestTheUnitsCommandRunsInABareRoot(t *testing.T) {
	root := installed(t)
	unit := unitOf(t, root)
	command := strings.Fields(unit["ExecStart"][0])
	config := filepath.Join(root, command[3])
	text := "[source]\ndsn = \"u:${DB_PASSWORD}@tcp(127.0.0.1:1)/d\"\n[checkpoint]\npath = \"/var/lib/replicator\"\n" +
		"[http]\nlisten = \"127.0.0.1:0\"\n[tables.t]\nkey = \"id\"\n[sinks.s]\ntype = \"redis\"\nurl = " +
		"\"redis://127.0.0.1:1/0\"\n" +
		"[views.v]\nfrom = \"t\"\nsink = \"s\"\nkind = \"hash\"\nkey = \"t:{id}\"\nfields = [\"a\"]\n"
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644),
		os.MkdirAll(filepath.Join(root, "var/lib/replicator"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("only root may change the root directory")
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir, cmd.Env = unit["WorkingDirectory"][0], []string{"DB_PASSWORD=secret"}
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	// The program can't reach any server. It logs that again and again, and ends when it gets a SIGTERM.
	var said []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if said = append(said, lines.Text()); strings.Contains(lines.Text(), "connection refused") {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(strings.Join(said, "\n"), "connection refused") {
		t.Errorf("%v: it ended so: %v\n%s", command, err, strings.Join(said, "\n"))
	}
}

func TestSystemdTakesTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	root := installed(t)
	// systemd-analyze requires that the programs of ExecStart and ExecReload exist, and the targets.
	kill := filepath.Join(root, "bin", "kill")
	if err := errors.Join(os.MkdirAll(filepath.Dir(kill), 0o755), os.WriteFile(kill, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"verify", "--root=" + root, "--man=no", "--recursive-errors=no", "replicator.service"},
		{"security", "--root=" + root, "--offline=yes", "--threshold=20", "replicator.service"},
	} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		t.Logf("%v: %.2000s", args, out)
		if err != nil || strings.Contains(string(out), "Unknown") {
			t.Errorf("systemd-analyze %v: %v", args, err)
		}
	}
}

// The unit must keep secrets hidden and give the program no privileges. These settings do that.
func TestTheUnitIsRestricted(t *testing.T) {
	unit := unitOf(t, "")
	for name, want := range map[string]string{"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		"ProtectHome": "yes", "CapabilityBoundingSet": "", "StateDirectory": "replicator", "UMask": "0077",
		"EnvironmentFile": "-/etc/replicator/environment"} {
		if !slices.Equal(unit[name], []string{want}) {
			t.Errorf("%s is %q, want %q", name, unit[name], want)
		}
	}
}

// unitOf reads the unit of the package that is installed in root, or of the checkout if root is "".
func unitOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	path := "../../deploy/package/replicator.service"
	if root != "" {
		path = filepath.Join(root, "usr/lib/systemd/system/replicator.service")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = append(settings[name], value)
		}
	}
	return settings
}

// Every build for users must use the profile, so that users run the program that was measured.
func TestEveryBuildForUsersIsGuided(t *testing.T) {
	for _, name := range []string{"Makefile", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || !strings.Contains(string(text), " -pgo="+guide.Path+" ") {
			t.Errorf("%s does not build with -pgo=%s: %v", name, guide.Path, err)
		}
	}
}
