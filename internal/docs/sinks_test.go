package docs_test

import (
	"os"
	"strings"
	"testing"
)

// docs/sinks.md quotes the methods of Sink and Target, and says that a file is a complete sink of under 300 lines.
func TestThePageOnSinksQuotesTheSeamAsItIs(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, seam := read("docs/sinks.md"), read("sink.go")
	_, block, _ := strings.Cut(page, "```go\n")
	block, _, _ = strings.Cut(block, "```")
	methods := func(text string) (all []string) {
		within := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if name, is := strings.CutSuffix(line, " interface {"); is {
				within = strings.TrimPrefix(name, "type ")
			} else if line == "}" {
				within = ""
			} else if (within == "Sink" || within == "Target") && line != "" && !strings.HasPrefix(line, "//") {
				all = append(all, within+"."+line)
			}
		}
		return all
	}
	want, got := methods(seam), methods(block)
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) == 0 {
		t.Errorf("docs/sinks.md shows\n%s\nand sink.go has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := strings.Count(read("sinks/sinktest/reference.go"), "\n"); n > 300 {
		t.Errorf("the complete sink has %d lines, and the page says under 300", n)
	}
}
