package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/child"
)

// patience is how long anything may take that ends by itself.
const patience = 2 * time.Minute

// Program is the built program with a configuration and a state directory of its own.
type Program struct {
	t      testing.TB
	binary string
	name   string // of the example, as its environment variables begin
	config string
	env    []string
	dir    string
}

// Main runs a package's tests, as servertest.Run does, with one build of the program for all of them, and exits.
func Main(run func() int) {
	dir, err := os.MkdirTemp("", "replicator-lab-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = sync.OnceValues(func() (string, error) { return build(dir) })
	code := run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared builds the program for all tests of a package, whose TestMain is Main. A build links for seconds.
var shared func() (binary string, err error)

func build(dir string) (binary string, err error) {
	binary = filepath.Join(dir, "replicator")
	if out, err := exec.Command("go", "build", "-o", binary, "replicator/cmd/replicator").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// Binary is the program, built by the first test that asks.
func Binary(t testing.TB) string {
	t.Helper()
	if shared == nil {
		t.Fatal("lab: nobody would remove the program: " +
			"add func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }")
	}
	binary, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Build is the program with a configuration. It takes NAME_STATE and NAME_LISTEN from the environment, which this
// package sets, and what env says.
func Build(t testing.TB, name, config string, env ...string) *Program {
	t.Helper()
	p := &Program{t: t, binary: Binary(t), name: name, config: config, env: env}
	return p.WithNewState()
}

// WithNewState is the program with nothing saved: a second replicator, or one that lost its state directory.
func (p *Program) WithNewState() *Program {
	p.t.Helper()
	other := *p
	other.dir = p.t.TempDir()
	if err := os.WriteFile(other.file(), []byte(p.config), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return &other
}

// File writes a file that the configuration names, beside it.
func (p *Program) File(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *Program) file() string { return filepath.Join(p.dir, "replicator.toml") }
func (p *Program) log() string  { return filepath.Join(p.dir, "log") }

func (p *Program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.binary, append(args, "-c", p.file())...)
	cmd.Env = append(append(os.Environ(), p.env...), p.name+"_STATE="+filepath.Join(p.dir, "state"), p.name+"_LISTEN=127.0.0.1:0")
	return cmd
}

// Run runs a command to its end, which must be a good one, and returns what it printed.
func (p *Program) Run(args ...string) string {
	p.t.Helper()
	out, err := p.Try(args...)
	if err != nil {
		p.t.Fatalf("replicator %s: %v\n%s", strings.Join(args, " "), err, LastLines(out, 20))
	}
	return out
}

// Try runs a command to its end, good or bad.
func (p *Program) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	out, err := p.command(ctx, args...).CombinedOutput()
	return string(out), err
}

// CatchUp runs the program until every view includes all that is committed now.
func (p *Program) CatchUp() { p.t.Helper(); p.Run("run", "--until-caught-up") }

// Replay runs the program over everything that the server's binlogs hold, from FILE:POS on, kills it once in the
// middle, and returns how long the rest took. What the sinks hold knows how far it is: a new state directory alone
// would go on from there, so the way back is said.
func (p *Program) Replay(from string) time.Duration {
	p.t.Helper()
	p.Run("checkpoint", "set", "--yes", "--pos", from)
	if shown := p.Run("checkpoint", "show", "--json"); !strings.Contains(shown, `"`+from+`"`) {
		p.t.Fatalf("checkpoint set --pos %s left %s", from, shown)
	}
	running := p.Start()
	Pause(p.t, 300*time.Millisecond)
	running.Kill()
	began := time.Now()
	p.CatchUp()
	return time.Since(began)
}

// Running is a program that runs until it is killed.
type Running struct {
	p    *Program
	cmd  *exec.Cmd
	tied *child.Child
}

// Start starts the program.
func (p *Program) Start() *Running {
	p.t.Helper()
	output, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer output.Close() // the program has its own
	cmd := p.command(p.t.Context(), "run")
	cmd.Stdout, cmd.Stderr = output, output
	tied, err := child.Start(cmd)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() }) // where a test fails before it kills it
	return &Running{p: p, cmd: cmd, tied: tied}
}

// Kill is kill -9. A program that ended before is a failure.
func (r *Running) Kill() {
	r.p.t.Helper()
	_ = r.cmd.Process.Kill() // it may have ended by itself; its end says so
	err := r.tied.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		r.p.t.Errorf("the program ended before it was killed: %v\n%s", err, r.p.Log(8))
	}
}

// Log is the end of what Start's programs wrote.
func (p *Program) Log(lines int) string {
	output, _ := os.ReadFile(p.log())
	return LastLines(string(output), lines)
}

// Pause lets time pass in which the program works; what is checked later must not depend on how much it did.
func Pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// Await waits until the condition holds, and fails the test if it does not come to that.
func Await(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
		Pause(t, 20*time.Millisecond)
	}
}

// LastLines are the last n lines of a text.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Statements are the statements of a file of DDL.
func Statements(text string) []string {
	var statements []string
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	return statements
}
