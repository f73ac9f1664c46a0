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

// patience is how long tests wait for something that must happen. It only prevents waiting forever.
const patience = 10 * time.Minute

// Program is the built program with its own configuration and state directory.
type Program struct {
	launch.Program
	t       testing.TB
	name    string // the example's name, which is the prefix of its environment variables
	config  string
	env     []string
	started []*launch.Process
}

// Main runs a package's tests by calling run, and exits. All tests of the package share one build of the program.
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

// shared builds the program once for all tests of a package whose TestMain calls Main, because linking takes seconds.
var shared func() (binary string, err error)

// Binary returns the program's path. The first call builds the program.
func Binary(t testing.TB) string {
	t.Helper()
	if shared == nil {
		t.Fatal("lab: no TestMain removes the program. " +
			"Add func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }")
	}
	binary, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Build returns the program with a configuration. The configuration may use the environment variables in env. It also
// uses NAME_STATE and NAME_LISTEN, which this package sets.
func Build(t testing.TB, name, config string, env ...string) *Program {
	t.Helper()
	config, env = withSinkAccount(config, env)
	p := &Program{Program: launch.Program{Path: Binary(t)}, t: t, name: name, config: config, env: env}
	return p.WithNewState()
}

// WithNewState returns the program without saved state: a second replicator, or one that lost its state directory.
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

// Beside writes a file to the directory of the configuration, which can then refer to the file by its name alone.
func (p *Program) Beside(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Run runs a command and returns its output. The test fails if the command fails.
func (p *Program) Run(args ...string) string {
	p.t.Helper()
	out, err := p.Try(args...)
	if err != nil {
		p.t.Fatalf("replicator %s: %v\n%s", strings.Join(args, " "), err, launch.LastLines(out, 20))
	}
	return out
}

// Try runs a command that may fail. It returns the command's output, followed by its log.
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

// CatchUp runs the program until every view includes everything that was committed before the call.
func (p *Program) CatchUp() { p.t.Helper(); p.Run("run", "--until-caught-up") }

// Replay runs the program over everything in the server's binlogs from FILE:POS on. It kills the program once in the
// middle, and returns how long the rest took. It sets the position, because even without saved state the program would
// start where the sinks say.
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

// Running is a process of the program that runs until it is killed.
type Running struct {
	*launch.Process
	t testing.TB
}

// Start starts the program. The program is killed at the end of the test.
func (p *Program) Start() *Running {
	p.t.Helper()
	started, err := p.Program.Start(context.WithoutCancel(p.t.Context()), "run", "-c", p.Program.File())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(started.Kill) // for a test that fails before it kills the program
	p.started = append(p.started, started)
	return &Running{Process: started, t: p.t}
}

// Kill ends the program with SIGKILL. If the program has already ended, the test fails.
func (r *Running) Kill() {
	r.t.Helper()
	if r.Process.Kill(); r.Code() != -1 {
		r.t.Errorf("the program ended before it was killed, with exit status %d\n%s",
			r.Code(), launch.LastLines(r.Process.Log(), 8))
	}
}

// Log returns the last lines that the programs started by Start wrote.
func (p *Program) Log(lines int) string {
	var all strings.Builder
	for _, r := range p.started {
		all.WriteString(r.Output() + r.Log())
	}
	return launch.LastLines(all.String(), lines)
}

// Pause waits, while the tested program goes on working. Later checks must not depend on how much the program did.
func Pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// Await waits until the condition holds, and fails the test if that takes longer than patience.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("after %s, this is still not true: %s", patience, what)
		}
		Pause(t, 20*time.Millisecond)
	}
}

// Statements returns the statements in a DDL file.
func Statements(text string) []string {
	var statements []string
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	return statements
}
