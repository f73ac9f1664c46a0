package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"replicator"
	"replicator/server"
	"replicator/verify"
)

// screenOf is a test's terminal. It collects what is written to it.
type screenOf struct {
	t      *testing.T
	master *os.File
	tty    *os.File
	fresh  *term.State // the state of a new terminal, before screenOf makes it raw

	mu   sync.Mutex
	text string
}

// newScreenOf opens a pseudoterminal and closes it when the test ends.
func newScreenOf(t *testing.T, columns, lines uint16) *screenOf {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s := &screenOf{t: t, master: master, tty: tty, fresh: fresh}
	s.resize(columns, lines)
	var reading sync.WaitGroup
	reading.Go(func() {
		for b := make([]byte, 64<<10); ; {
			n, err := master.Read(b)
			s.mu.Lock()
			s.text += string(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		tty.Close() // the reader at the other end then gets an error
		reading.Wait()
		master.Close()
	})
	return s
}

func (s *screenOf) resize(columns, lines uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns}); err != nil {
		s.t.Fatal(err)
	}
}

var sequences = regexp.MustCompile("\x1b\\[[?0-9;]*[a-zA-Z]")

// wait waits until is returns true for the text that was written, and returns that text.
func (s *screenOf) wait(is func(text string) bool) string {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		text := s.text
		s.mu.Unlock()
		if is(text) {
			return text
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("it never was so: %q", text)
		}
	}
}

func TestProgressFitsTheTerminalAsItIsNow(t *testing.T) {
	screen := newScreenOf(t, 20, 10)
	p := newProgress(screen.tty)
	before := 0
	for _, c := range []struct {
		columns uint16
		rows    int64
		ratio   float64
		want    string
	}{
		{20, 100, 0.1, "rebuilding  100 ro…"},
		{200, 200, 0.2, "rebuilding  200 rows"},
	} {
		screen.resize(c.columns, 10)
		p.last = time.Time{}
		p.Progress("rebuilding", c.rows, c.ratio)
		text := screen.wait(func(text string) bool { return strings.Contains(text[before:], c.want) })
		if line := sequences.ReplaceAllString(text[before:], ""); columnsOf(line) > int(c.columns) {
			t.Errorf("on %d columns: %q", c.columns, line)
		}
		before = len(text)
	}
	if line := p.line("rebuilding", 300, 0.3, 20*time.Second); !strings.HasPrefix(line, "[█████████···") ||
		!strings.HasSuffix(line, "]  30%  70 s left  rebuilding  300 rows  10 rows/s") {
		t.Errorf("with room: %q", line)
	}
	screen.resize(40, 10)
	if line := p.line("rebuilding", 300, 0.3, 20*time.Second); line != " 30%  70 s left  rebuilding  300 rows  10 rows/s" {
		t.Errorf("without a bar: %q", line)
	}
	p.end()
}

// The progress of verify's second pass starts again. It shows a share only if an estimate is known.
func TestVerifySaysWhichPassItIsAt(t *testing.T) {
	screen := newScreenOf(t, 120, 10)
	b := &bars{out: screen.tty}
	for _, c := range []struct {
		at   verify.Progress
		want string
	}{
		{verify.Progress{Doing: "table orders", Cells: 0, Estimate: 1000}, "verifying v: table orders  0 rows"},
		{verify.Progress{Doing: "table orders", Cells: 500, Estimate: 1000}, "left  verifying v: table orders  500 rows"},
		{verify.Progress{Doing: "the sink's contents", Cells: 10, Estimate: 1000},
			"verifying v: the sink's contents  10 rows"},
		{verify.Progress{Doing: "the sink's contents", Cells: 20}, "verifying v: the sink's contents  20 rows"},
		{verify.Progress{Doing: "the sink's orphans"}, "verifying v: the sink's orphans  0 rows"},
	} {
		if b.progress != nil {
			b.last = time.Time{} // otherwise the next progress may come too soon to be drawn
		}
		before := len(screen.wait(func(string) bool { return true }))
		b.verifying("v", c.at)
		text := screen.wait(func(text string) bool { return strings.HasSuffix(text[before:], c.want) })
		line := sequences.ReplaceAllString(text[before:], "")
		if shared := strings.Contains(line, "%"); shared != strings.HasPrefix(c.want, "left") {
			t.Errorf("%+v: %q", c.at, line)
		}
	}
	b.end()
}

// stoppedViews is a Controller with one view, which failed.
type stoppedViews struct{ server.Controller }

func (stoppedViews) Status(context.Context) ([]replicator.ViewStatus, error) {
	return []replicator.ViewStatus{{View: "orders", Sink: "main", Kind: "row", State: replicator.StateFailed,
		Position: "binlog.000001:4", Error: "no such table"}}, nil
}

func TestStatusIsColouredOnATerminalUnlessThatIsUnwanted(t *testing.T) {
	s, err := server.Listen("127.0.0.1:0", "", stoppedViews{}, server.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	file := filepath.Join(t.TempDir(), "replicator.toml")
	text := strings.NewReplacer("${DSN}", "u@tcp(127.0.0.1:1)/app", "${LISTEN}", s.Addr()).Replace(cellViews)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		noColour, kind string
		coloured       bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Run("NO_COLOR="+c.noColour+" TERM="+c.kind, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColour)
			t.Setenv("TERM", c.kind)
			screen := newScreenOf(t, 120, 20)
			root := newRoot()
			root.SetOut(screen.tty)
			root.SetArgs([]string{"status", "-c", file})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			text := screen.wait(func(text string) bool { return strings.Contains(text, "no such table") })
			if got := strings.Contains(text, "\x1b[31mfailed"); got != c.coloured {
				t.Errorf("coloured is %v: %q", got, text)
			}
		})
	}
}
