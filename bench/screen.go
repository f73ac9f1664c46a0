package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

type screen struct {
	out io.Writer
	mu  sync.Mutex
}

func newScreen(out io.Writer) *screen { return &screen{out: out} }

func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, text)
}

// begin writes that a step begins. Calling done writes how long the step took.
func (s *screen) begin(what string) (done func()) {
	s.say(what)
	began := time.Now()
	return func() { s.say(fmt.Sprintf("  %.1f s", time.Since(began).Seconds())) }
}

// thousands formats a number with a comma after every three digits.
func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
