package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"replicator"
	"replicator/server"
)

// screenOf is a terminal of a test: what is written to it, as frames.
type screenOf struct {
	t      *testing.T
	master *os.File
	tty    *os.File

	mu   sync.Mutex
	text string
}

// newScreenOf opens a pseudoterminal, which ends with the test.
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
	if _, err := term.MakeRaw(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	s := &screenOf{t: t, master: master, tty: tty}
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
		tty.Close() // the other side then reads an error
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

// wait waits until what was written is as told, and returns it.
func (s *screenOf) wait(is func(text string) bool) string {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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

// until waits for a whole frame that is as told, and returns its lines without what colours them.
func (s *screenOf) until(is func(frame []string) bool) []string {
	s.t.Helper()
	var frame []string
	s.wait(func(text string) bool {
		frames := strings.Split(text, "\x1b[H")
		for i := len(frames) - 1; i > 0; i-- {
			if whole, _, ok := strings.Cut(frames[i], "\x1b[J"); ok {
				frame = strings.Split(sequences.ReplaceAllString(whole, ""), "\r\n")
				return is(frame)
			}
		}
		return false
	})
	return frame
}

// views is a program that tells of views.
type views struct {
	server.Controller
	all []replicator.ViewStatus
}

func (v views) Status(context.Context) ([]replicator.ViewStatus, error) { return v.all, nil }

func TestTopFitsTheTerminalWhateverItsSize(t *testing.T) {
	lag, slow, left := 0.02, 754.0, 90.0
	program := views{all: []replicator.ViewStatus{
		{View: "orders_by_customer", State: replicator.StateRunning, LagSeconds: &lag, Rate: 412.3,
			Position: "mysql-bin.000042:73829104"},
		{View: "customers", State: replicator.StateRetrying, LagSeconds: &slow, DeadLetters: 12,
			Error: "sink cache: dial tcp 10.0.3.17:6379: \x1b[2Jconnection refused", Position: "mysql-bin.000041:4"},
		{View: "products", State: replicator.StateRebuilding, LagSeconds: &lag, Progress: 0.37, ETA: &left},
	}}
	m := server.NewMetrics()
	m.Sources(func(context.Context) []server.SourceStats {
		return []server.SourceStats{{Sink: "main", Position: "mysql-bin.000042:73829104", Retention: &slow}}
	})
	s, err := server.Listen("127.0.0.1:0", "", program, m)
	if err != nil {
		t.Fatal(err)
	}
	screen := newScreenOf(t, 20, 12)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		tty := terminal{out: screen.tty, file: screen.tty, colour: true}
		ended <- top(ctx, server.Client{Address: s.Addr()}, tty, leastEvery)
	}()
	fits := func(columns, lines int) func([]string) bool {
		return func(frame []string) bool {
			for _, line := range frame {
				if cells(line) > columns {
					return false
				}
			}
			return len(frame) <= lines
		}
	}
	narrow := screen.until(fits(20, 12))
	if text := strings.Join(narrow, "\n"); !strings.Contains(text, "2 of 3") || !strings.Contains(text, "more lines") {
		t.Errorf("on 20 columns:\n%s", text)
	}
	screen.resize(140, 40)
	wide := screen.until(func(frame []string) bool {
		return fits(140, 40)(frame) && strings.Contains(strings.Join(frame, "\n"), "VIEW")
	})
	text := strings.Join(wide, "\n")
	for _, want := range []string{"412.3", "▁", "retrying", "12 min 34 s", "12 dead letters", "rebuilding 37%",
		"connection refused (for", "source for main: mysql-bin.000042:73829104, binlog kept for 12 min 34 s more"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	screen.until(func(frame []string) bool { return strings.HasPrefix(frame[0], "no answer since") })
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	screen.wait(func(text string) bool { return strings.HasSuffix(text, "\x1b[?25h\x1b[?1049l") })
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
		if line := sequences.ReplaceAllString(text[before:], ""); cells(line) > int(c.columns) {
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
