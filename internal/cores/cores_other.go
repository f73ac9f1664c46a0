//go:build !unix

// Package cores says on how many processors the program runs at once: here, on all of them.
package cores

// Pace does nothing.
func Pace() {}
