package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// canvas shows screens, one in place of the other; what is no terminal is given one below the other.
type canvas struct {
	terminal
}

// open takes the whole screen, and leaves what stood there for close.
func (c *canvas) open() { _, _ = io.WriteString(c.out, "\x1b[?1049h\x1b[?25l") } // nothing is lost with a frame

func (c *canvas) close() { _, _ = io.WriteString(c.out, "\x1b[?25h\x1b[?1049l") }

// draw shows as much of the lines as there is room for. None of them is longer than the screen is wide.
func (c *canvas) draw(lines []string, columns, height int) {
	if c.file == nil {
		fmt.Fprintf(c.out, "%s\n\n", strings.Join(lines, "\n"))
		return
	}
	if len(lines) > height {
		lines = append(lines[:height-1:height-1], painted{cut(fmt.Sprintf("… %d more lines", len(lines)-height+1), columns),
			faint}.show(c.colour))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines {
		b.WriteString(line + "\x1b[K") // what the frame before had there
		if i < len(lines)-1 {
			b.WriteString("\r\n") // a raw terminal wants both
		}
	}
	b.WriteString("\x1b[J")
	_, _ = io.WriteString(c.out, b.String())
}

// key is one that somebody pressed.
type key int

const (
	keyOther key = iota
	keyQuit
	keyUp
	keyDown
)

// readKeys calls pressed for each key that is pressed on the terminal, until restore is called.
//
// Its goroutine lives until a key is pressed after that or the program ends: a read from a terminal can't be called
// off.
func readKeys(pressed func(key)) (restore func()) {
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
			k := keyOf(string(text[:n]))
			pressed(k)
			if k == keyQuit {
				return
			}
		}
	}()
	return func() { _ = term.Restore(stdin, old) } // the terminal is what it is
}

func keyOf(text string) key {
	switch text {
	case "q", "Q", "\x03", "\x04":
		return keyQuit
	case "\x1b[A", "\x1bOA", "k":
		return keyUp
	case "\x1b[B", "\x1bOB", "j", " ":
		return keyDown
	}
	return keyOther
}
