// Package remedy completes the commands that messages name. Most packages don't know which configuration file the
// program reads. So they name a command in backquotes, `replicator rebuild users`, and In adds the file where the
// message is shown. A user can then run the command in any folder.
package remedy

import (
	"regexp"
	"strings"
)

// File is the absolute path of the program's configuration; "" if there is none.
type File string

// begin is the start of a command in a message.
const begin = "`" + program

const program = "replicator "

// command matches a command in backquotes: its name, its arguments, and what to do with its output.
var command = regexp.MustCompile(begin + "([a-z]+)([^`]*?)( [>|][^`]*)?`")

// In adds the file, once, to the commands that a text names in backquotes.
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

// plain matches a word that a shell needs no quotes for.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Quoted quotes a word for a shell.
func Quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// completed is an error whose text was changed: its commands got the file, or the placeholder Views was replaced.
type completed struct {
	error
	text string
}

func (e completed) Error() string { return e.text }
func (e completed) Unwrap() error { return e.error }

// Err returns err with the file added to the commands in its text.
func (f File) Err(err error) error {
	if err == nil {
		return nil
	}
	return with(err, f.In(err.Error()))
}

// Views is the placeholder in a message for the names of its views. Named replaces the placeholder, because readers of
// a log don't know the names.
const Views = "VIEW…"

// Named returns an error with the names of its views.
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

// ExactCollation is the advice for key columns whose keys must have only one spelling. utf8mb4_bin treats 'a' and 'a '
// as one key.
const ExactCollation = "a binary type, or a collation that tells all spellings apart (utf8mb4_0900_bin, on MariaDB " +
	"utf8mb4_nopad_bin)"
