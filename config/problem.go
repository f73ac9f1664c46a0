package config

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Problem is one thing that is wrong with the file. Load returns all of them joined; errors.As finds the first.
type Problem struct {
	File string
	Line int    // 0: it concerns no line, such as a section that is missing
	Key  string // "views.users.kind"; "" for a syntax error
	Text string
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// join returns the problems as one error, in the order of the file; those without a line stand first.
func join(problems []*Problem) error {
	sort.SliceStable(problems, func(i, k int) bool { return problems[i].Line < problems[k].Line })
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// nearest returns the word that is closest to what was written; "" if there are no words.
func nearest(written string, words []string) string {
	best, least := "", 0
	for _, w := range words {
		if d := distance(strings.ToLower(written), strings.ToLower(w)); best == "" || d < least {
			best, least = w, d
		}
	}
	return best
}

// meant is the end of an error about a word that is not known.
func meant(written string, words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; did you mean %q?", words[0])
	}
	return fmt.Sprintf("; did you mean %q? (known: %s)", nearest(written, words), strings.Join(words, ", "))
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if len(s) > maxWord || len(t) > maxWord {
		return maxWord
	}
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for k := range last {
		last[k] = k
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for k := 1; k <= len(t); k++ {
			cost := 1
			if s[i-1] == t[k-1] {
				cost = 0
			}
			row[k] = min(last[k]+1, row[k-1]+1, last[k-1]+cost)
			if i > 1 && k > 1 && s[i-1] == t[k-2] && s[i-2] == t[k-1] {
				row[k] = min(row[k], before[k-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

// maxWord bounds the work spent on a suggestion: no known word is nearly that long.
const maxWord = 200
