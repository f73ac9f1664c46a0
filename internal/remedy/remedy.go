// Package remedy completes commands in messages. Most packages don't know which configuration file the program reads,
// so they name a command without it, in backquotes, such as `replicator rebuild users`. Where the message is shown, In
// adds the option -c with the file, so that a user can run the command in any folder.
package remedy

import (
	"regexp"
	"strings"
)

// File is the absolute path of the program's configuration; "" if there is none.
type File string

const begin = "`" + program

const program = "replicator "

// command matches a command in backquotes. Its groups are the name, the arguments, and a pipe or redirection.
var command = regexp.MustCompile(begin + "([a-z]+)([^`]*?)( [>|][^`]*)?`")

// In adds "-c FILE" to each command that a text names in backquotes, unless the command has that option already or
// needs no configuration.
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

// completed is an error whose text was completed: with "-c FILE" in the commands that it names, or with the names of
// views.
type completed struct {
	error
	text string
}

func (e completed) Error() string { return e.text }
func (e completed) Unwrap() error { return e.error }

// Err returns err with a changed text: each command of this program that the text names gets "-c FILE".
func (f File) Err(err error) error {
	if err == nil {
		return nil
	}
	return with(err, f.In(err.Error()))
}

// Views stands in a message for the names of the views that the message is about, where code does not know these names.
// A caller that knows them replaces Views: see Named.
const Views = "VIEW…"

// Named returns an error in whose text the placeholder Views is replaced by the names of views.
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

// ExactCollation is the advice for key columns in which different texts must be different keys. utf8mb4_bin is not
// enough, because it treats 'a' and 'a ' as one key.
const ExactCollation = "a binary type, or a collation that tells all spellings apart (utf8mb4_0900_bin, on MariaDB " +
	"utf8mb4_nopad_bin)"
