package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"
)

// display simulates a terminal with a number of columns. It knows only the control sequences that the demo writes.
type display struct {
	t              *testing.T
	columns, lines int
	rows           [][]rune // the lines that scrolled off the top, then the lines of the screen
	row, column    int
	noWrap         bool
	wrapped        bool // a text was too long and continued in the next line
}

var sequence = regexp.MustCompile("^\x1b\\[([?0-9;]*)([a-zA-Z])")

// shown returns a display to which the text was written.
func shown(t *testing.T, columns, lines int, text string) *display {
	t.Helper()
	d := &display{t: t, columns: columns, lines: lines, rows: [][]rune{nil}}
	for text != "" {
		if m := sequence.FindStringSubmatch(text); m != nil {
			d.obey(m[1], m[2])
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text[:min(len(text), 4)])[0]
		text = text[len(string(r)):]
		switch {
		case r == '\r':
			d.column = 0
		case r == '\n':
			d.down()
		case r < ' ':
			t.Fatalf("a terminal is sent %q", r)
		default:
			d.put(r)
		}
	}
	return d
}

func (d *display) obey(parameter, command string) {
	d.t.Helper()
	switch parameter + command {
	case "2K":
		d.rows[d.row] = nil
	case "J":
		d.rows[d.row] = d.rows[d.row][:min(d.column, len(d.rows[d.row]))]
		d.rows = d.rows[:d.row+1]
	case "?7l", "?7h":
		d.noWrap = command == "l"
	case "0m", "1m":
	default:
		up, err := strconv.Atoi(parameter)
		if command != "A" || err != nil {
			d.t.Fatalf("a sequence that the display does not know: %s%s", parameter, command)
		}
		d.row = max(d.row-up, d.top())
	}
}

// top returns the screen's first row. The cursor can't move above it.
func (d *display) top() int { return max(len(d.rows)-d.lines, 0) }

func (d *display) down() {
	if d.row++; d.row == len(d.rows) {
		d.rows = append(d.rows, nil)
	}
}

func (d *display) put(r rune) {
	if d.column == d.columns {
		if d.column--; !d.noWrap {
			d.column, d.wrapped = 0, true
			d.down()
		}
	}
	row := d.rows[d.row]
	for len(row) <= d.column {
		row = append(row, ' ')
	}
	row[d.column] = r
	d.rows[d.row] = row
	d.column++
}

// text returns all lines, including those that scrolled off the top.
func (d *display) text() string {
	var b strings.Builder
	for _, row := range d.rows {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// tmux returns what tmux finally shows of a text. Without tmux, it returns want.
func tmux(t *testing.T, columns, lines int, text, want string) string {
	t.Helper()
	program, err := exec.LookPath("tmux")
	if err != nil {
		return want // only the simulated display is tested then
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		args = append([]string{"-S", filepath.Join(dir, "s"), "-u", "-f", "/dev/null"}, args...)
		cmd := exec.CommandContext(t.Context(), program, args...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	run("new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(lines), "cat '"+file+"'; read -r end")
	defer run("kill-server")
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := strings.TrimRight(run("capture-pane", "-p", "-S", "-"), "\n") + "\n"
		if got == want || time.Now().After(deadline) {
			return got
		}
	}
}

// drawn checks what a terminal shows after each frame of a text. It returns what the terminal shows at the end.
func drawn(t *testing.T, columns, lines int, text string) string {
	t.Helper()
	const end = "\x1b[J"
	if !strings.Contains(text, end) {
		t.Fatalf("no frame was drawn: %q", text)
	}
	for at, rest := 0, text; ; {
		before, after, more := strings.Cut(rest, end)
		at += len(before)
		if more {
			at += len(end)
		}
		d := shown(t, columns, lines, text[:at])
		if n := strings.Count(d.text(), "replicator demo"); n > 1 || strings.Count(d.text(), "by email:") > 1 || d.wrapped {
			t.Fatalf("on %d columns:\n%s", columns, d.text())
		}
		if rest = after; !more {
			if got := tmux(t, columns, lines, text, d.text()); got != d.text() {
				t.Errorf("tmux shows\n%s\nnot\n%s", got, d.text())
			}
			return d.text()
		}
	}
}

// The title is longer than most terminals are wide. The last line may also be too long.
func TestAFrameOfTheDemoStaysOneScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	f := frame{state: "running", left: time.Minute, lookup: "u12345@example.com → 0123abcd… → username \"u12345\"  (0.3 ms)"}
	for i, table := range shownTables() {
		f.counts = append(f.counts, count{table, int64(100 * (i + 1))})
	}
	longer := f
	longer.lookup += strings.Repeat("人", 70)
	less := f
	less.counts = f.counts[:2]
	for _, size := range []struct{ columns, lines int }{{60, 24}, {80, 24}, {140, 40}, {60, 8}} {
		terminal := newScreenOf(t, uint16(size.columns), uint16(size.lines))
		s := &screen{terminal: newTerminal(terminal.tty)}
		for _, f := range []frame{less, f, longer, less, f} {
			s.draw(f)
		}
		if _, err := terminal.tty.WriteString("The end.\r\n"); err != nil {
			t.Fatal(err)
		}
		text := terminal.wait(func(text string) bool { return strings.Contains(text, "The end.") })
		var want []string
		for _, line := range f.lines()[:min(size.lines-1, len(f.lines()))] {
			want = append(want, strings.TrimRight(cut(line, size.columns), " "))
		}
		want = append(want, "The end.")
		if got := drawn(t, size.columns, size.lines, text); got != strings.Join(want, "\n")+"\n" {
			t.Errorf("on %d columns:\n%s", size.columns, got)
		}
	}
}

// This is the whole demo as a user sees it in a narrow terminal.
func TestTheDemoLeavesCleanText(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	terminal := newScreenOf(t, 60, 24)
	if err := term.Restore(int(terminal.tty.Fd()), terminal.fresh); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), built, "demo", "--rate", "100", "--duration", "2s")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal.tty, terminal.tty, terminal.tty
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that the demo stops its server
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %q", err, terminal.text)
	}
	text := terminal.wait(func(text string) bool { return strings.Contains(text, `"Quick start".`) })
	got := drawn(t, 60, 24, text)
	// The output ends with the last frame and then plain text.
	lines := strings.Split(got, "\n")
	title := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "replicator demo") })
	form := regexp.MustCompile(`^replicator demo .*…
\n  changes written +\d+ +\d+ s left, q to stop
  view changes +\d+ /s
  lag +\d+\.\d\d s    \w+

(?:  \w+ +\d+  ▇*…?
){6}
  by email:  .*
The writer has stopped\. Waiting until every view includes
what it wrote …
Verified: \d+ changes were written,\sand\sall\s17\stables\s\(\d+\srows\)\smatch\sthe\snewest\scells\.
The server and its data are removed again\. Next: README\.md,
"Quick start"\.
$`)
	if end := strings.Join(lines[max(title, 0):], "\n"); !form.MatchString(end) {
		t.Errorf("at the end it shows\n%s", got)
	}
}
