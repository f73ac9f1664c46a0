package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/launch"
)

// patience is how long anything may take that ends by itself: it is only against waiting forever.
const patience = 10 * time.Minute

// Program is the built program with a configuration and a state directory of its own.
type Program struct {
	launch.Program
	t       testing.TB
	name    string // of the example, as its environment variables begin
	config  string
	env     []string
	started []*launch.Process
}

// Main runs a package's tests, as servertest.Run does, with one build of the program for all of them, and exits.
func Main(run func() int) {
	dir, err := os.MkdirTemp("", "replicator-lab-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = sync.OnceValues(func() (string, error) {
		binary := filepath.Join(dir, "replicator")
		return binary, launch.Build(context.Background(), binary)
	})
	code := run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared builds the program for all tests of a package, whose TestMain is Main. A build links for seconds.
var shared func() (binary string, err error)

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
	config, env = withSinkAccount(config, env)
	p := &Program{Program: launch.Program{Path: Binary(t)}, t: t, name: name, config: config, env: env}
	return p.WithNewState()
}

// WithNewState is the program with nothing saved: a second replicator, or one that lost its state directory.
func (p *Program) WithNewState() *Program {
	p.t.Helper()
	other := *p
	other.Dir, other.started = p.t.TempDir(), nil
	other.Env = append(append(os.Environ(), p.env...),
		p.name+"_STATE="+filepath.Join(other.Dir, "state"), p.name+"_LISTEN=127.0.0.1:0")
	if err := other.Configure(p.config); err != nil {
		p.t.Fatal(err)
	}
	return &other
}

// Beside writes a file that the configuration names, beside it.
func (p *Program) Beside(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Run runs a command to its end, which must be a good one, and returns what it printed.
func (p *Program) Run(args ...string) string {
	p.t.Helper()
	out, err := p.Try(args...)
	if err != nil {
		p.t.Fatalf("replicator %s: %v\n%s", strings.Join(args, " "), err, launch.LastLines(out, 20))
	}
	return out
}

// Try runs a command to its end, good or bad. It returns what it printed, and then what it logged.
func (p *Program) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	command, err := p.Program.Start(ctx, append(args, "-c", p.Program.File())...)
	if err != nil {
		return "", err
	}
	err = command.Wait()
	return command.Output() + command.Log(), err
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
	*launch.Process
	t testing.TB
}

// Start starts the program.
func (p *Program) Start() *Running {
	p.t.Helper()
	started, err := p.Program.Start(context.WithoutCancel(p.t.Context()), "run", "-c", p.Program.File())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(started.Kill) // where a test fails before it kills it
	p.started = append(p.started, started)
	return &Running{Process: started, t: p.t}
}

// Kill is kill -9. A program that ended before is a failure.
func (r *Running) Kill() {
	r.t.Helper()
	if r.Process.Kill(); r.Code() != -1 {
		r.t.Errorf("the program ended before it was killed, with exit status %d\n%s",
			r.Code(), launch.LastLines(r.Process.Log(), 8))
	}
}

// Log is the end of what Start's programs wrote.
func (p *Program) Log(lines int) string {
	var all strings.Builder
	for _, r := range p.started {
		all.WriteString(r.Output() + r.Log())
	}
	return launch.LastLines(all.String(), lines)
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
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		Pause(t, 20*time.Millisecond)
	}
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
