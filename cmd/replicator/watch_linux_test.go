package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/server"
	"replicator/verify"
)

// newsViews is a program whose views are told anew each time.
type newsViews struct {
	server.Controller
	asked chan struct{} // one for each time
}

func (n newsViews) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	select {
	case n.asked <- struct{}{}:
	case <-ctx.Done():
	}
	return []replicator.ViewStatus{{View: "orders", Sink: "main", Kind: "row", State: replicator.StateFailed,
		Position: fmt.Sprintf("binlog.000001:%d", len(n.asked)), Error: "no such table"}}, nil
}

// watching runs `status --watch` on a terminal, until the test ends it.
func watching(t *testing.T, screen *screenOf, args ...string) (end func()) {
	t.Helper()
	s, err := server.Listen("127.0.0.1:0", "", newsViews{asked: make(chan struct{}, 1000)}, server.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "replicator.toml")
	text := strings.NewReplacer("${DSN}", "u@tcp(127.0.0.1:1)/app", "${LISTEN}", s.Addr()).Replace(cellViews)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	root.SetOut(screen.tty)
	root.SetArgs(append([]string{"status", "-c", file}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The table is drawn again and again in its place, in colours but where they are not wanted, and Ctrl-C leaves the
// screen as it was.
func TestStatusIsWatched(t *testing.T) {
	for _, c := range []struct {
		noColour, kind string
		coloured       bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Run("NO_COLOR="+c.noColour+" TERM="+c.kind, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColour)
			t.Setenv("TERM", c.kind)
			screen := newScreenOf(t, 120, 20)
			end := watching(t, screen, "--watch=100ms")
			last := ""
			for range 3 {
				last = strings.Join(screen.until(func(frame []string) bool { return strings.Join(frame, "\n") != last }), "\n")
				for _, want := range []string{"VIEW", "orders", "failed", "binlog.000001:", "no such table"} {
					if !strings.Contains(last, want) {
						t.Errorf("%s is not in\n%s", want, last)
					}
				}
			}
			end()
			text := screen.wait(func(text string) bool { return strings.HasSuffix(text, "\x1b[?25h\x1b[?1049l") })
			if got := strings.Contains(text, "\x1b[31mfailed"); got != c.coloured {
				t.Errorf("coloured is %v: %q", got, text)
			}
		})
	}
}

func TestStatusIsWatchedAsLinesOfJSON(t *testing.T) {
	screen := newScreenOf(t, 120, 20)
	end := watching(t, screen, "--watch=100ms", "--json")
	text := screen.wait(func(text string) bool { return strings.Count(text, "\n") >= 3 })
	end()
	for line := range strings.Lines(text) {
		var v viewStatus
		if err := json.Unmarshal([]byte(line), &v); strings.HasSuffix(line, "\n") && (err != nil || v.View != "orders") {
			t.Errorf("%v: %q", err, line)
		}
	}
}

// What verify shows of its second pass begins anew, and has a share only where one is known.
func TestVerifySaysWhichPassItIsAt(t *testing.T) {
	screen := newScreenOf(t, 120, 10)
	b := &bars{out: screen.tty}
	for _, c := range []struct {
		at   verify.Progress
		want string
	}{
		{verify.Progress{Doing: "table orders", Cells: 0, Estimate: 1000}, "verifying v: table orders  0 rows"},
		{verify.Progress{Doing: "table orders", Cells: 500, Estimate: 1000}, "left  verifying v: table orders  500 rows"},
		{verify.Progress{Doing: "what the sink holds", Cells: 10, Estimate: 1000}, "verifying v: what the sink holds  10 rows"},
		{verify.Progress{Doing: "what the sink holds", Cells: 20}, "verifying v: what the sink holds  20 rows"},
		{verify.Progress{Doing: "what the sink holds of no cell"}, "verifying v: what the sink holds of no cell  0 rows"},
	} {
		if b.progress != nil {
			b.last = time.Time{} // it draws no oftener than is read
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

// A duration is a text in every form of the log: in JSON it would be a number of nanoseconds.
func TestDurationsAreTextsInTheLog(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: readable})).
		Info("pipeline recovered", "after", 62*time.Second+500*time.Millisecond)
	if !strings.Contains(out.String(), `"after":"1m2.5s"`) {
		t.Error(out.String())
	}
}
