package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"replicator"
)

// frame has the values that the demo shows at one moment.
type frame struct {
	since   time.Duration
	left    time.Duration
	written int64
	lag     float64
	rate    float64
	state   string
	lookup  string
	counts  []count
}

type count struct {
	table string
	rows  int64
}

func shownTables() []string {
	return []string{"users", "index_users_email", "companies", "index_companies_domain", "schools", "index_schools_name"}
}

// frame reads the state of the program and the tables. It omits values that can't be read now; the next frame tries
// again.
func (d *demo) frame(ctx context.Context) frame {
	f := frame{written: d.writer.Written()}
	if end, ok := ctx.Deadline(); ok {
		f.left = time.Until(end)
		f.since = d.duration - f.left
	}
	views, _ := d.app.Status(ctx)
	for _, v := range views {
		f.rate += v.Rate
		if f.state == "" || v.State != replicator.StateRunning {
			f.state = v.State
		}
		if v.LagSeconds != nil {
			f.lag = max(f.lag, *v.LagSeconds)
		}
	}
	for _, t := range shownTables() {
		c := count{table: t}
		if d.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t).Scan(&c.rows) == nil {
			f.counts = append(f.counts, c)
		}
	}
	f.lookup = d.lookup(ctx)
	return f
}

// lookup reads a random email from the index and then the row that it leads to, as an application would.
func (d *demo) lookup(ctx context.Context) string {
	var email string
	var key []byte
	var username sql.NullString
	began := time.Now()
	err := d.db.QueryRowContext(ctx, `SELECT i.email, i.row_key, u.username FROM index_users_email i JOIN users u ON u.id = i.row_key
		WHERE i.email >= CONCAT('u', FLOOR(RAND() * 1000000)) LIMIT 1`).Scan(&email, &key, &username)
	if errors.Is(err, sql.ErrNoRows) || err != nil {
		return ""
	}
	return fmt.Sprintf("%s → %s → username %q  (%.1f ms)", email, hex.EncodeToString(key)[:8]+"…", username.String,
		float64(time.Since(began).Microseconds())/1000)
}

// screen shows frames. On a terminal it redraws them in place, otherwise it prints one line for each frame.
type screen struct {
	terminal
	lines   int // number of lines of the last frame
	once    sync.Once
	restore func()
}

// newScreen returns a screen. On a terminal, pressing q calls quit.
func newScreen(out io.Writer, quit context.CancelFunc) *screen {
	s := &screen{terminal: newTerminal(out), restore: func() {}}
	if s.file != nil {
		s.restore = untilQuit(quit)
	}
	return s
}

// untilQuit calls quit once the user presses q, Ctrl-C or Ctrl-D. restore resets the terminal. The goroutine that reads
// keys can't be interrupted, so it ends with one of these keys or with the program.
func untilQuit(quit context.CancelFunc) (restore func()) {
	stdin := int(os.Stdin.Fd())
	if !term.IsTerminal(stdin) {
		return func() {}
	}
	old, err := term.MakeRaw(stdin)
	if err != nil {
		return func() {}
	}
	go func() {
		for text := make([]byte, 16); ; {
			n, err := os.Stdin.Read(text)
			if err != nil {
				return
			}
			switch string(text[:n]) {
			case "q", "Q", "\x03", "\x04":
				quit()
				return
			}
		}
	}()
	return func() { _ = term.Restore(stdin, old) } // nothing can be done about an error
}

func (s *screen) close() { s.once.Do(s.restore) }

func (s *screen) interval() time.Duration {
	if s.file != nil {
		return 250 * time.Millisecond
	}
	return 2 * time.Second
}

func (s *screen) draw(f frame) {
	if s.file == nil {
		fmt.Fprintf(s.out, "%3.0fs  %7d changes written  %7.0f view changes/s  lag %.2fs  %s  %s\n",
			f.since.Seconds(), f.written, f.rate, f.lag, f.state, f.lookup)
		return
	}
	columns, height := s.size()
	lines := f.lines()
	lines = lines[:min(len(lines), max(height-1, 1))] // all lines must fit, because the cursor can't move above the top
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	for i, line := range lines {
		look := plain
		if i == 0 {
			look = bold
		}
		// \x1b[?7l makes a terminal that has become narrower cut the line. A raw terminal needs both \r and \n.
		fmt.Fprintf(&b, "\r\x1b[2K\x1b[?7l%s\x1b[?7h\r\n", painted{cut(line, columns), look}.show(s.colour))
	}
	b.WriteString("\x1b[J") // the previous frame may have been longer
	s.lines = len(lines)
	_, _ = io.WriteString(s.out, b.String()) // a lost frame doesn't matter
}

func (f frame) lines() []string {
	lines := []string{
		"replicator demo   jogchat: users, companies and schools as schemaless cells, 17 tables kept of them",
		"",
		fmt.Sprintf("  changes written   %9d      %3.0f s left, q to stop", f.written, f.left.Seconds()),
		fmt.Sprintf("  view changes      %9.0f /s", f.rate),
		fmt.Sprintf("  lag               %9.2f s    %s", f.lag, f.state),
		"",
	}
	widest := int64(1)
	for _, c := range f.counts {
		widest = max(widest, c.rows)
	}
	for _, c := range f.counts {
		lines = append(lines, fmt.Sprintf("  %-24s %6d  %s", c.table, c.rows, strings.Repeat("▇", int(c.rows*40/widest))))
	}
	return append(lines, "", "  by email:  "+f.lookup)
}
