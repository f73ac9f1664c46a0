package config

import (
	"errors"
	"strconv"
	"strings"
)

// Share parses a fraction, such as 1% or 0.01. It must be above 0 and at most 1.
func Share(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f > 0 && f <= 1) {
		return 0, errors.New("not a share above 0 and up to 1, such as 1% or 0.01")
	}
	return f, nil
}
