package docs_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDocsFiguresOfTheREADMEAreThoseOfPerformance checks that each row of the README's table of programs is also in
// docs/performance.md, with figures that round to the README's.
func TestDocsFiguresOfTheREADMEAreThoseOfPerformance(t *testing.T) {
	texts := pages(t)
	readme := section(t, texts["README.md"], "Compared with others")
	performance := section(t, texts["docs/performance.md"], "Beside other programs")
	said := tableOf(t, readme, "| | rows a second | CPU s per million rows | memory |")
	measured := tableOf(t, performance, "| task | program, and what it keeps | rows a second | "+
		"CPU s per million (warm) | × | sink's, too | peak MiB | the sink holds |")
	for _, row := range said {
		found := slices.ContainsFunc(measured, func(m []string) bool {
			return m[0] == "w1" && strings.HasPrefix(row[0], "this") == strings.HasPrefix(m[1], "**this**") &&
				rounds(m[2], row[1]) && rounds(m[3], row[2]) && rounds(m[6], row[3])
		})
		if !found {
			t.Errorf("README.md: %q is not in docs/performance.md", row)
		}
	}
	for _, fact := range []string{"MariaDB 10.11", "Redis 7", "500,000 versions of 100,000 entities",
		"medians of three turns", "26 November 2026", "afbe6b3"} {
		inOne := strings.Contains(oneLine(readme), fact)
		if inBoth := strings.Contains(oneLine(performance), fact); inOne && !inBoth {
			t.Errorf("README.md says %q of the figures, and docs/performance.md doesn't", fact)
		}
	}
	for measured, said := range map[string]bool{"0.50 / 1.97": true, "0.5 / 2.1": false, "0.50": false} {
		if rounds(measured, "0.5 / 2.0 ms") != said {
			t.Errorf("%s is taken wrongly", measured)
		}
	}
}

// tableOf returns the rows of the table with this header.
func tableOf(t *testing.T, text, header string) (rows [][]string) {
	t.Helper()
	_, after, found := strings.Cut(text, "\n"+header+"\n")
	if !found {
		t.Fatalf("no table %s", header)
	}
	for line := range strings.Lines(after) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], "-") && len(cells) > 3 {
			rows = append(rows, cells)
		}
	}
	if len(rows) < 3 {
		t.Fatalf("%d rows below %s", len(rows), header)
	}
	return rows
}

// rounds reports whether the numbers in the cell measured round to those in the cell said. It ignores what follows the
// numbers, such as a unit or a remark.
func rounds(measured, said string) bool {
	of, at := numbers(measured), numbers(said)
	if len(at) == 0 || len(of) < len(at) {
		return false
	}
	for i, s := range at {
		a, err := strconv.ParseFloat(of[i], 64)
		b, err2 := strconv.ParseFloat(s, 64)
		_, fraction, _ := strings.Cut(s, ".")
		if err != nil || err2 != nil || math.Abs(a-b) > 0.5001*math.Pow10(-len(fraction)) {
			return false
		}
	}
	return true
}

// numbers returns the numbers at the beginning of a cell.
func numbers(cell string) (found []string) {
	for _, word := range strings.Fields(strings.ReplaceAll(cell, ",", "")) {
		if word == "/" {
			continue
		}
		if _, err := strconv.ParseFloat(word, 64); err != nil {
			break
		}
		found = append(found, word)
	}
	return found
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
