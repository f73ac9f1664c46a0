package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"replicator/internal/human"
)

// progress shows how far long work is: a bar on a terminal, a line now and then otherwise. It implements
// service.Display.
type progress struct {
	terminal
	began time.Time // when progress was first shown
	what  string    // was done then
	rows  int64     // that were done then, by an earlier run perhaps
	ratio float64
	last  time.Time
	drawn bool
}

func newProgress(out io.Writer) *progress { return &progress{terminal: newTerminal(out)} }

// Progress shows rows done, and the share of all, if it is known.
func (p *progress) Progress(what string, rows int64, ratio float64) {
	wait := 5 * time.Second
	if p.file != nil {
		wait = 100 * time.Millisecond
	}
	if time.Since(p.last) < wait && what == p.what {
		return
	}
	p.last = time.Now()
	if what != p.what || rows < p.rows { // something else begins, or the same anew
		p.began, p.what, p.rows, p.ratio = p.last, what, rows, ratio
	}
	p.show(p.line(what, rows, ratio, time.Since(p.began)))
}

// line says how far it is after a time. What matters most stands first: a narrow terminal cuts off the rest.
func (p *progress) line(what string, rows int64, ratio float64, took time.Duration) string {
	bar, share := "", ""
	if ratio > p.ratio+0.001 && ratio < 1 {
		left := time.Duration(float64(took) * (1 - ratio) / (ratio - p.ratio))
		share = fmt.Sprintf("%3.0f%%  %s left  ", 100*ratio, human.Duration(left))
		if columns, _ := p.size(); columns >= 80 {
			const width = 30
			n := int(ratio * width)
			bar = "[" + strings.Repeat("█", n) + strings.Repeat("·", width-n) + "] "
		}
	}
	text := bar + share + fmt.Sprintf("%s  %d rows", what, rows)
	if took > time.Second {
		text += fmt.Sprintf("  %.0f rows/s", float64(rows-p.rows)/took.Seconds())
	}
	return text
}

func (p *progress) show(text string) {
	if p.file != nil {
		columns, _ := p.size()                                  // it may have changed
		fmt.Fprintf(p.out, "\r\x1b[2K%s", cut(text, columns-1)) // in the last column, some terminals begin a new line
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, text)
}

// Say shows a line of its own: the whole of it, however narrow the terminal is.
func (p *progress) Say(text string) {
	if p.file != nil {
		fmt.Fprint(p.out, "\r\x1b[2K")
	}
	fmt.Fprintln(p.out, text)
	p.drawn = false
}

// end leaves what is drawn where it is.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
	}
	p.drawn = false
}
