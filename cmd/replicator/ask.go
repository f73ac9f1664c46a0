package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"replicator/survey"
)

// asking asks at a terminal: a question, and a line for the answer. At the end of the input every answer is empty.
func asking(in io.Reader, out io.Writer) func(question string) (string, error) {
	lines := bufio.NewScanner(in)
	return func(question string) (string, error) {
		fmt.Fprint(out, question)
		if !lines.Scan() {
			fmt.Fprintln(out)
			return "", lines.Err()
		}
		return strings.TrimSpace(lines.Text()), nil
	}
}

// question asks for what the command line does not say: where views are to be kept, and of which tables.
func (i *initialization) question(ctx context.Context, dsn string, targets []survey.Target) ([]survey.Target, error) {
	for len(i.sinks) == 0 {
		answer, err := i.ask("Where shall views be kept? redis://HOST:PORT/NUMBER, http://HOST:PORT (Elasticsearch) or a DSN (MySQL),\n" +
			"several with spaces between them; or Enter for the source's own database: ")
		if err != nil || answer == "" {
			if err != nil {
				return nil, err
			}
			break
		}
		if targets, err = parseTargets(strings.Fields(answer)); err == nil {
			break
		}
		if _, err = i.ask(err.Error() + ". Enter to try again: "); err != nil {
			return nil, err
		}
	}
	if len(i.tables) > 0 {
		return targets, nil
	}
	names, err := survey.Tables(ctx, dsn)
	if err != nil || len(names) < 2 {
		return targets, nil // whatever is wrong is said by what comes next
	}
	shown := names
	if len(shown) > 20 {
		shown = append(names[:20:20], fmt.Sprintf("and %d more", len(names)-20))
	}
	for len(i.tables) == 0 {
		answer, err := i.ask("Tables: " + strings.Join(shown, ", ") +
			"\nWhich of them? Names with spaces between them; or Enter for all: ")
		if err != nil {
			return nil, err
		}
		if answer == "" {
			break
		}
		i.tables = strings.Fields(strings.ReplaceAll(answer, ",", " "))
		for _, name := range i.tables {
			if !slices.Contains(names, name) {
				i.tables = nil
				if _, err := i.ask("There is no table " + name + ". Enter to try again: "); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	return targets, nil
}
