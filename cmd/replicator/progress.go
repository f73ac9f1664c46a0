package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"replicator/internal/human"
)

// progress shows the progress of a long operation. On a terminal it shows a bar, otherwise it prints a line from time
// to time. It implements service.Display.
type progress struct {
	terminal
	began time.Time // when the current operation was first shown
	what  string    // name of the current operation
	rows  int64     // rows already done when the operation was first shown, perhaps by an earlier run
	ratio float64   // share of all rows already done when the operation was first shown, from 0 to 1
	last  time.Time // when progress was last shown
	drawn bool
}

func newProgress(out io.Writer) *progress { return &progress{terminal: newTerminal(out)} }

// Progress shows how many rows are done, and their share of all rows if that is known.
func (p *progress) Progress(what string, rows int64, ratio float64) {
	wait := 5 * time.Second
	if p.file != nil {
		wait = 100 * time.Millisecond
	}
	if time.Since(p.last) < wait && what == p.what {
		return
	}
	p.last = time.Now()
	if what != p.what || rows < p.rows { // another operation begins, or the same operation begins again
		p.began, p.what, p.rows, p.ratio = p.last, what, rows, ratio
	}
	p.show(p.line(what, rows, ratio, time.Since(p.began)))
}

// line returns the text that shows the progress of an operation; took is the time since the operation was first shown.
// The most important part comes first, because a narrow terminal cuts off the end.
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
		columns, _ := p.size()                                  // asked each time, because the size may change
		fmt.Fprintf(p.out, "\r\x1b[2K%s", cut(text, columns-1)) // some terminals break the line at the last column
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, text)
}

// Say prints a line that stays. The whole text is visible even on a narrow terminal.
func (p *progress) Say(text string) {
	if p.file != nil {
		fmt.Fprint(p.out, "\r\x1b[2K")
	}
	fmt.Fprintln(p.out, text)
	p.drawn = false
}

// end moves the cursor below the last line, so that the line stays visible.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
	}
	p.drawn = false
}
