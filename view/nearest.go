package view

import (
	"fmt"

	"replicator/internal/nearest"
)

// didYouMean returns " (did you mean X?)" with the candidate that is most similar to name. It returns "" if none is
// similar enough.
func didYouMean(name string, candidates []string) string {
	word, distance := nearest.Word(name, candidates)
	if word == "" || distance >= len(name)/3+2 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", word)
}
