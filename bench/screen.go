package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// screen shows what is being done: one line that changes on a terminal, else a line for everything that took its time.
type screen struct {
	out      io.Writer
	terminal bool

	mu sync.Mutex // held while a line is written
}

func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// say writes a line that stays.
func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintln(s.out, text)
}

// clear removes the line that changes. s.mu is held.
func (s *screen) clear() {
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}

// bar is one thing being done.
type bar struct {
	screen *screen
	what   string
	total  int // 0: not known
	begin  time.Time
	count  atomic.Int64
	stop   chan struct{}
	wg     sync.WaitGroup
}

// bar begins to show something; done must be called at its end.
func (s *screen) bar(what string, total int) *bar {
	b := &bar{screen: s, what: what, total: total, begin: time.Now(), stop: make(chan struct{})}
	if s.terminal {
		b.wg.Go(b.draw)
	}
	return b
}

func (b *bar) add(n int) { b.count.Add(int64(n)) }

// draw renews the line a few times a second. That costs nothing that could be measured.
func (b *bar) draw() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		text := fmt.Sprintf("%s: %.0f s", b.what, time.Since(b.begin).Seconds())
		if b.total > 0 {
			text = fmt.Sprintf("%s: %s of %s", b.what, thousands(b.count.Load()), thousands(int64(b.total)))
		}
		b.screen.mu.Lock()
		b.screen.clear()
		fmt.Fprint(b.screen.out, text)
		b.screen.mu.Unlock()
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
	}
}

func (b *bar) done() {
	close(b.stop)
	b.wg.Wait()
	b.screen.say(fmt.Sprintf("%s: %.1f s", b.what, time.Since(b.begin).Seconds()))
}

// thousands is a number with a comma after every three digits.
func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
