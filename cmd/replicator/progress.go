package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// progress shows how far long work is: a bar on a terminal, a line now and then otherwise. It implements
// service.Display.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time // when progress was first shown
	rows     int64     // that were done then, by an earlier run perhaps
	ratio    float64
	last     time.Time
	drawn    bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// Progress shows rows done, and the share of all, if it is known.
func (p *progress) Progress(what string, rows int64, ratio float64) {
	wait := 5 * time.Second
	if p.terminal {
		wait = 100 * time.Millisecond
	}
	if time.Since(p.last) < wait {
		return
	}
	p.last = time.Now()
	if p.began.IsZero() || rows < p.rows {
		p.began, p.rows, p.ratio = p.last, rows, ratio
	}
	took := time.Since(p.began)
	text := fmt.Sprintf("%s  %d rows", what, rows)
	if took > time.Second {
		text += fmt.Sprintf("  %.0f rows/s", float64(rows-p.rows)/took.Seconds())
	}
	if ratio > p.ratio+0.001 && ratio < 1 {
		left := time.Duration(float64(took) * (1 - ratio) / (ratio - p.ratio))
		text += fmt.Sprintf("  %3.0f%%  %s left", 100*ratio, left.Round(time.Second))
		if p.terminal {
			const width = 30
			n := int(ratio * width)
			text = "[" + strings.Repeat("█", n) + strings.Repeat("·", width-n) + "] " + text
		}
	}
	p.show(text)
}

func (p *progress) show(text string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[2K%s", text)
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, text)
}

// Say shows a line of its own.
func (p *progress) Say(text string) {
	p.show(text)
	p.end()
}

// end leaves what is drawn where it is.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
	}
	p.drawn = false
}
