// Package nearest finds the word that somebody meant.
package nearest

import (
	"fmt"
	"strings"
)

// Word is the word that is nearest to what was written, whatever the letters' case, and how many letters they differ
// by; "" if there are no words.
func Word(written string, words []string) (word string, distance int) {
	for _, w := range words {
		if d := letters(strings.ToLower(written), strings.ToLower(w)); word == "" || d < distance {
			word, distance = w, d
		}
	}
	return word, distance
}

// Close asks whether the nearest word was meant, as the end of an error; "" if none is near, or there is no other.
func Close(written string, words []string) string {
	word, distance := Word(written, words)
	if word == "" || word == written || distance > len(written)/3 {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", word)
}

// Meant is the end of an error about a word that is not known: the nearest word that is, and all of them; "" if there
// are none.
func Meant(written string, words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; did you mean %q?", words[0])
	}
	word, _ := Word(written, words)
	return fmt.Sprintf("; did you mean %q? (known: %s)", word, strings.Join(words, ", "))
}

// letters counts the letters to insert, remove, replace or swap with their neighbour to get from a to b.
func letters(a, b string) int {
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
