package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const root = "../.."

// pages returns the repository's Markdown files, by their paths relative to the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	if len(texts) < 15 {
		t.Fatalf("found %d pages", len(texts))
	}
	return texts
}

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	quote = regexp.MustCompile("`([^`\n]+)`")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	file  = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|md|lua|toml|sql|yml|py|html)$`)
	path  = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+/?$`)
)

// users are names of files that belong to the reader, not to the repository.
var users = map[string]bool{"replicator.toml": true, "mapping.json": true}

func TestDocsNameOnlyFilesThatExist(t *testing.T) {
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(root, name)); return err == nil }
	texts := pages(t)
	for page, text := range texts {
		dir := filepath.Dir(page)
		for _, m := range quote.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			name := m[1]
			first, _, _ := strings.Cut(name, "/")
			ours := file.MatchString(name) && !users[name] || path.MatchString(name) && exists(first)
			if ours && !exists(name) && !exists(filepath.Join(dir, name)) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := page
			if target != "" {
				to = filepath.Join(dir, target)
			}
			if !exists(to) {
				t.Errorf("%s links to %s, which does not exist", page, to)
			} else if anchor != "" && !hasHeading(texts[to], anchor) {
				t.Errorf("%s links to #%s, and %s has no such heading", page, anchor, to)
			}
		}
	}
}

// hasHeading reports whether a page has the heading that an anchor refers to.
func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !found || !strings.HasPrefix(line, "#") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		if slug == anchor {
			return true
		}
	}
	return false
}

// Rows of tables, and commands and output in code blocks, can't be wrapped, so they may be longer.
func TestDocsLinesAreAtMost120Columns(t *testing.T) {
	texts := pages(t)
	example, err := os.ReadFile(filepath.Join(root, "config.example.toml"))
	if err != nil {
		t.Fatal(err)
	}
	texts["config.example.toml"] = string(example)
	for page, text := range texts {
		n, block := 0, false
		for line := range strings.Lines(text) {
			n++
			if strings.HasPrefix(line, "```") {
				block = !block
			}
			columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			if columns > 120 && !block && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns", page, n, columns)
			}
		}
	}
}

// The manual must stay short enough to be read. To add a page, remove text elsewhere.
func TestThePagesStayShort(t *testing.T) {
	all := 0
	for page, text := range pages(t) {
		words := len(strings.Fields(text))
		most := 4_000
		switch {
		case page == "README.md":
			most = 1_400
		case strings.HasPrefix(page, "docs/adr/"):
			most = 600
		case strings.HasPrefix(page, "docs/"):
			all += words
		default:
			continue
		}
		if words > most {
			t.Errorf("%s has %d words, and may have %d: shorten it", page, words, most)
		}
	}
	if all == 0 || all > 22_000 {
		t.Errorf("the pages in docs have %d words in total, and may have 22,000: shorten one", all)
	}
}

// TestTheTableFor3AMQuotesTheProgram looks for each quoted text among the strings of the program.
func TestTheTableFor3AMQuotesTheProgram(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quotes := 0
	for line := range strings.Lines(section(t, pages(t)["docs/operating.md"], "At 3 a.m.")) {
		if seen, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | "); strings.HasPrefix(line, "|") {
			for _, quoted := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(seen, -1) {
				if quotes++; !strings.Contains(source.String(), quoted[1]) {
					t.Errorf("the program says %q nowhere", quoted[1])
				}
			}
		}
	}
	if quotes < 8 {
		t.Errorf("the table quotes %d texts", quotes)
	}
}

// TestArchitectureShowsTheWayOfARow checks that docs/architecture.md follows a row in a few steps, each of which names
// a file, and that its glossary is short.
func TestArchitectureShowsTheWayOfARow(t *testing.T) {
	text := pages(t)["docs/architecture.md"]
	hops := 0
	for line := range strings.Lines(section(t, text, "The path of a row")) {
		if line[0] < '1' || line[0] > '9' {
			continue
		}
		hops++
		named := false
		for _, m := range quote.FindAllStringSubmatch(line, -1) {
			named = named || file.MatchString(m[1])
		}
		if !named {
			t.Errorf("a hop names no file: %s", line)
		}
	}
	if hops == 0 || hops >= 8 {
		t.Errorf("a row takes %d hops", hops)
	}
	words := strings.Count(section(t, text, "Glossary"), "\n| **")
	if words == 0 || words > 40 {
		t.Errorf("the glossary has %d words", words)
	}
}

// section returns the text under a heading of the second level.
func section(t *testing.T, text, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n## "+title+"\n")
	if !found {
		t.Fatalf("no section %q", title)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// A test that a page names must exist.
func TestDocsNameOnlyTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	for page, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
