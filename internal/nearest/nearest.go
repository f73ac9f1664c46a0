// Package nearest finds the known word that a user probably meant.
package nearest

import (
	"fmt"
	"strings"
)

// Word returns the known word that is nearest to the written one, ignoring case, and by how many letters the two
// differ; "" if there are no words.
func Word(written string, words []string) (word string, distance int) {
	for _, w := range words {
		if d := letters(strings.ToLower(written), strings.ToLower(w)); word == "" || d < distance {
			word, distance = w, d
		}
	}
	return word, distance
}

// Close returns text for the end of an error, a question whether the user meant the nearest word; "" if no word is
// near.
func Close(written string, words []string) string {
	word, distance := Word(written, words)
	if word == "" || word == written || distance > len(written)/3 {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", word)
}

// Meant returns text for the end of an error about an unknown word: the nearest known word, and all known words; "" if
// there are no known words.
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

// maxWord bounds the work for a suggestion. No known word is nearly that long.
const maxWord = 200
