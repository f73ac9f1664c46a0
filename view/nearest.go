package view

import (
	"fmt"

	"replicator/internal/nearest"
)

// didYouMean returns " (did you mean X?)" with the candidate that is most like name; "" if none is.
func didYouMean(name string, candidates []string) string {
	word, distance := nearest.Word(name, candidates)
	if word == "" || distance >= len(name)/3+2 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", word)
}
