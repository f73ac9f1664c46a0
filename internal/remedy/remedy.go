// Package remedy completes the commands that messages name. Below the command line nothing knows which file the program
// reads: a message names a command in backquotes, `replicator rebuild users`, and where it is shown, In adds the file.
// So it can be typed as it stands, in any folder.
package remedy

import (
	"regexp"
	"strings"
)

// File is the absolute path of the configuration that the program reads; "" if there is none.
type File string

// begin is how a message begins to name a command.
const begin = "`" + program

const program = "replicator "

// command is a command in backquotes: its name, its arguments, and what is to be done with its output.
var command = regexp.MustCompile(begin + "([a-z]+)([^`]*?)( [>|][^`]*)?`")

// In adds the file to the commands that a text names in backquotes, once.
func (f File) In(text string) string {
	if f == "" || !strings.Contains(text, begin) {
		return text
	}
	return command.ReplaceAllStringFunc(text, func(found string) string {
		m := command.FindStringSubmatch(found)
		name, rest, output := m[1], m[2], m[3]
		switch name {
		case "init", "demo", "version", "help", "completion":
			return found
		}
		for _, word := range strings.Fields(rest) {
			if word == "-c" || word == "--config" || word == "--help" {
				return found
			}
		}
		return begin + name + rest + " -c " + Quoted(string(f)) + output + "`"
	})
}

// plain is what a shell takes for one word as it stands.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Quoted is a word as a shell reads it.
func Quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// completed is an error whose text names commands with the file.
type completed struct {
	error
	text string
}

func (e completed) Error() string { return e.text }
func (e completed) Unwrap() error { return e.error }

// Err is an error whose text is completed.
func (f File) Err(err error) error {
	if err == nil {
		return nil
	}
	return with(err, f.In(err.Error()))
}

// Views stands in a message for the views that it is about, which Named puts there: who reads a log does not know them.
const Views = "VIEW…"

// Named is an error that names the views it is about.
func Named(err error, views string) error {
	if err == nil {
		return nil
	}
	return with(err, strings.ReplaceAll(err.Error(), Views, views))
}

func with(err error, text string) error {
	if text == err.Error() {
		return err
	}
	return completed{err, text}
}

// ExactCollation is what key columns have to have where one key must not be spelt in two ways. For utf8mb4_bin 'a' and
// 'a ' are one key.
const ExactCollation = "a binary type, or a collation that tells all spellings apart (utf8mb4_0900_bin, on MariaDB " +
	"utf8mb4_nopad_bin)"
