package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// terminal describes a command's output, as far as the output's properties affect the format.
type terminal struct {
	out    io.Writer
	file   *os.File // nil: the output is not a terminal
	colour bool
}

// newTerminal returns the terminal for an output. It respects NO_COLOR (no-color.org) and TERM=dumb.
func newTerminal(out io.Writer) terminal {
	t := terminal{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.file = f
		t.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// size returns the current size of the screen, which may change at any time. If the output isn't a terminal, it returns
// 0, which means no limit.
func (t terminal) size() (columns, lines int) {
	if t.file == nil {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(t.file.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return 80, 24
	}
	return columns, lines
}

// paint is a text's style, as a parameter of the terminal's SGR sequence. "" means no style.
type paint string

const (
	plain  paint = ""
	bold   paint = "1"
	faint  paint = "2"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	blue   paint = "36" // this is cyan, because blue is hard to read on black
)

// painted is a text with its style.
type painted struct {
	text  string
	paint paint
}

// show returns the text, with escape sequences for its style if colour is true.
func (p painted) show(colour bool) string {
	if !colour || p.paint == plain {
		return p.text
	}
	return "\x1b[" + string(p.paint) + "m" + p.text + "\x1b[0m"
}

// columnsOf returns how many columns of the terminal a text takes. The text must not contain control characters: call
// visible first.
func columnsOf(text string) int {
	n := 0
	for _, r := range text {
		n += columnsOfRune(r)
	}
	return n
}

func columnsOfRune(r rune) int {
	switch kind := width.LookupRune(r).Kind(); kind {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// visible replaces characters that would break a line or that a terminal would interpret. Names and errors may contain
// such characters.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == utf8.RuneError:
			return '·'
		}
		return r
	}, text)
}

// cut shortens a text to a number of columns; 0 means no limit.
func cut(text string, columns int) string {
	if columns <= 0 || columnsOf(text) <= columns {
		return text
	}
	n := 0
	for i, r := range text {
		if n += columnsOfRune(r); n > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// wrapped breaks a text into lines of at most a number of columns, at spaces if possible; 0 means no limit.
func wrapped(text string, columns int) (lines []string) {
	if columns <= 0 || columnsOf(text) <= columns {
		return []string{text}
	}
	for text != "" {
		end, space, n := len(text), -1, 0
		for i, r := range text {
			if n += columnsOfRune(r); n > columns && i > 0 {
				end = i
				break
			}
			if r == ' ' {
				space = i
			}
		}
		if end < len(text) && space > 0 {
			end = space
		}
		lines, text = append(lines, text[:end]), strings.TrimLeft(text[end:], " ")
	}
	return lines
}

// grid is a table that is formatted to fit the terminal. Each row's notes appear below the row.
type grid struct {
	header []string
	rows   []gridRow
}

type gridRow struct {
	cells []painted
	notes []painted
}

// add adds a row. It replaces control characters in the texts.
func (g *grid) add(cells []painted, notes ...painted) {
	row := gridRow{}
	for _, c := range cells {
		row.cells = append(row.cells, painted{visible(c.text), c.paint})
	}
	for _, n := range notes {
		if n.text != "" {
			row.notes = append(row.notes, painted{visible(n.text), n.paint})
		}
	}
	g.rows = append(g.rows, row)
}

func (g *grid) without(name string) *grid {
	i := slices.Index(g.header, name)
	if i < 0 {
		return g
	}
	less := &grid{header: slices.Delete(slices.Clone(g.header), i, i+1)}
	for _, r := range g.rows {
		less.rows = append(less.rows, gridRow{slices.Delete(slices.Clone(r.cells), i, i+1), r.notes})
	}
	return less
}

func (g *grid) widths() []int {
	widths := make([]int, len(g.header))
	for i, name := range g.header {
		widths[i] = columnsOf(name)
	}
	for _, r := range g.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], columnsOf(c.text))
		}
	}
	return widths
}

func (g *grid) width() int {
	total := 2 * (len(g.header) - 1)
	for _, w := range g.widths() {
		total += w
	}
	return total
}

// lines returns the table as lines of at most a number of columns (0: no limit). A table that is too wide becomes a
// list.
func (g *grid) lines(columns int, colour bool) []string {
	widths := g.widths()
	if columns > 0 && g.width() > columns {
		return g.list(columns, colour)
	}
	line := func(row []painted) string {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c.show(colour))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-columnsOf(c.text)+2))
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	var head []painted
	for _, name := range g.header {
		head = append(head, painted{strings.ToUpper(name), faint})
	}
	lines := []string{line(head)}
	for _, r := range g.rows {
		lines = append(lines, line(r.cells))
		lines = append(lines, r.below(columns, colour)...)
	}
	return lines
}

// list returns several lines for each row: the row's first cell, and below it the other cells with the names of their
// columns.
func (g *grid) list(columns int, colour bool) (lines []string) {
	for _, r := range g.rows {
		for i, c := range r.cells {
			if i == 0 {
				lines = append(lines, painted{cut(c.text, columns), bold}.show(colour))
				continue
			}
			if c.text == "" || c.text == "-" {
				continue
			}
			name := "  " + g.header[i] + " "
			if left := columns - columnsOf(name); left >= min(columnsOf(c.text), 8) {
				lines = append(lines, painted{name, faint}.show(colour)+painted{cut(c.text, left), c.paint}.show(colour))
			} else {
				lines = append(lines, painted{cut(name, columns), faint}.show(colour),
					painted{cut("    "+c.text, columns), c.paint}.show(colour))
			}
		}
		lines = append(lines, r.below(columns, colour)...)
	}
	return lines
}

func (r gridRow) below(columns int, colour bool) (lines []string) {
	for _, n := range r.notes {
		for _, text := range wrapped(n.text, max(columns-2, min(columns, 1))) {
			lines = append(lines, "  "+painted{text, n.paint}.show(colour))
		}
	}
	return lines
}
