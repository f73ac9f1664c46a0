package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator/internal/nearest"
)

// Section is a table of the configuration file, such as [views.users]. Each method that reads a key records the key as
// known. reportKeys then reports the table's unknown keys.
type Section struct {
	l     *loader
	at    *node
	path  string // such as "views.users"
	shape string // the path with * for names that the user chose, such as "views.*"
	known []string

	missing []needed // required keys that the table doesn't have
}

type needed struct{ key, example string }

// Pair is a name and value in a table. For an item of a list, name and value are equal.
type Pair struct {
	Name, Text string
	line       int
}

// Has reports whether a key is given, with any value.
func (s *Section) Has(key string) bool { return s.at.fields[key] != nil }

func (s *Section) line(key string) int {
	if n := s.at.fields[key]; n != nil {
		return n.line
	}
	return s.at.line
}

// Problem records a mistake in a key, with its line.
func (s *Section) Problem(key, format string, args ...any) {
	s.l.problem(s.line(key), under(s.path, key), format, args...)
}

// ProblemAt records a mistake in one item of a key's list or table, with the item's line.
func (s *Section) ProblemAt(item Pair, key, format string, args ...any) {
	s.l.problem(item.line, under(s.path, key), format, args...)
}

// get returns the key's value, or nil if the key is missing or its value is not of the wanted kind. It also records the
// key as known.
func (s *Section) get(key string, want kind, example string) *node {
	s.knows(key)
	n := s.at.fields[key]
	if n == nil || n.kind == unusable {
		return nil
	}
	if n.kind != want {
		s.Problem(key, "expected %s, such as %s, and found %s", want, example, n.kind)
		return nil
	}
	return n
}

func (s *Section) knows(key string) {
	if !slices.Contains(s.known, key) {
		s.known = append(s.known, key)
		s.l.knows(s.shape, key)
	}
}

// Need makes a key required. reportKeys reports a required key that is missing.
func (s *Section) Need(key, example string) {
	s.knows(key)
	if !s.Has(key) {
		s.missing = append(s.missing, needed{key, example})
	}
}

// text reads a string. If the key is not given, the result is fallback. An empty string counts as given.
func (s *Section) text(key, fallback, example string) string {
	if n := s.get(key, aText, example); n != nil {
		return n.text
	}
	return fallback
}

// Name reads a string that must not be empty.
func (s *Section) Name(key, fallback, example string) string {
	text := s.text(key, fallback, example)
	if text == "" && s.Has(key) && s.at.fields[key].kind == aText {
		s.Problem(key, "is empty; say for example %s", example)
	}
	return text
}

func (s *Section) choice(key string, words ...string) string {
	n := s.get(key, aText, strconv.Quote(words[0]))
	if n == nil {
		return words[0]
	}
	if !slices.Contains(words, n.text) {
		s.Problem(key, "%q is not known%s", n.text, nearest.Meant(n.text, words))
		return words[0]
	}
	return n.text
}

// Secret reads a secret from KEY, or from the file that KEY_file names.
func (s *Section) Secret(key, example string) Secret {
	text := Secret(s.text(key, "", example))
	if s.Has(key) && s.Has(key+"_file") {
		s.knows(key + "_file")
		s.Problem(key+"_file", "%s is given as well; give one of the two", key)
		return text
	}
	if file := s.SecretFile(key); file != "" {
		return file
	}
	return text
}

// SecretFile reads a secret from the file that KEY_file names, if that is given.
func (s *Section) SecretFile(key string) Secret {
	key += "_file"
	file := s.Name(key, "", `"/run/secrets/`+key+`"`)
	if file == "" {
		return ""
	}
	data, err := s.l.readFile(s.l.resolve(file))
	if err != nil {
		if !s.l.leavesOut(under(s.path, key)) {
			s.Problem(key, "can't be read: %v", err)
		}
		return ""
	}
	content := strings.TrimRight(string(data), "\r\n")
	if content == "" {
		s.Problem(key, "%s is empty", file)
	}
	return Secret(content)
}

func (s *Section) given(key string) string {
	if s.Has(key + "_file") {
		return key + "_file"
	}
	return key
}

// Given reports whether a secret is given, by KEY or KEY_file.
func (s *Section) Given(key string) bool { return s.Has(key) || s.Has(key+"_file") }

// Bool reads true or false. A missing key counts as false.
func (s *Section) Bool(key string) bool {
	n := s.get(key, aBoolean, "true")
	return n != nil && n.text == "true"
}

// Int reads an integer between two bounds.
func (s *Section) Int(key string, fallback, low, high int64) int64 {
	return s.integer(key, fallback, low, high)
}

func (s *Section) integer(key string, fallback, low, high int64) int64 {
	n := s.get(key, aNumber, strconv.FormatInt(max(low, 1000), 10))
	if n == nil {
		return fallback
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 0, 64)
	if err != nil || v < low || v > high {
		s.Problem(key, "expected an integer from %d to %d, and found %s", low, high, n.text)
		return fallback
	}
	return v
}

// Duration reads a duration between two bounds. A missing key counts as 0.
func (s *Section) Duration(key string, low, high time.Duration) time.Duration {
	return s.duration(key, 0, low, high)
}

func (s *Section) duration(key string, fallback, low, high time.Duration) time.Duration {
	n := s.get(key, aText, strconv.Quote(shown(max(fallback, time.Second))))
	if n == nil {
		return fallback
	}
	d, err := time.ParseDuration(n.text)
	switch {
	case err != nil:
		s.Problem(key, `expected a duration, such as "500ms", "1s" or "24h", and found %q`, n.text)
	case d < low || d > high:
		s.Problem(key, "expected a duration from %s to %s, and found %s", shown(low), shown(high), n.text)
	default:
		return d
	}
	return fallback
}

// shown formats a duration as people write it: 24h, not 24h0m0s.
func shown(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (s *Section) size(key string, fallback, low int64) int64 {
	s.knows(key)
	n := s.at.fields[key]
	if n == nil || n.kind == unusable {
		return fallback
	}
	v, ok := int64(0), false
	if n.kind == aText || n.kind == aNumber {
		v, ok = parseSize(n.text)
	}
	switch {
	case !ok:
		s.Problem(key, `expected a size, such as "64MiB" (B, KiB, MiB, GiB, kB, MB, GB)`)
	case v < low:
		s.Problem(key, "expected at least %s", formatSize(low))
	default:
		return v
	}
	return fallback
}

func parseSize(text string) (int64, bool) {
	digits := strings.TrimRight(text, "BGKMik ")
	factor, ok := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}[strings.TrimSpace(text[len(digits):])]
	n, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), 10, 64)
	if err != nil || !ok || n < 0 || n > math.MaxInt64/factor {
		return 0, false
	}
	return n * factor, true
}

func formatSize(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// List reads a string or a list of strings. It refuses empty strings and duplicates.
func (s *Section) List(key, example string) []Pair {
	s.knows(key)
	n := s.at.fields[key]
	if n == nil {
		return nil
	}
	items := []*node{n}
	if n.kind == aList {
		items = n.items
	}
	var list []Pair
	for i, item := range items {
		switch {
		case item.kind == unusable:
		case item.kind != aText:
			s.l.problem(item.line, under(s.path, key),
				"expected a string or a list of strings, such as %s, and found %s", example, item.kind)
		case item.text == "":
			s.l.problem(item.line, under(s.path, key), "item %d is empty", i+1)
		case slices.ContainsFunc(list, func(p Pair) bool { return p.Text == item.text }):
			s.l.problem(item.line, under(s.path, key), "item %d is a duplicate", i+1)
		default:
			list = append(list, Pair{Name: item.text, Text: item.text, line: item.line})
		}
	}
	if n.kind == aList && len(n.items) == 0 {
		s.Problem(key, "is empty; say for example %s", example)
	}
	return list
}

// Table reads name = "text" pairs in the order of the file.
func (s *Section) Table(key, example string) []Pair {
	n := s.get(key, aTable, example)
	if n == nil {
		return nil
	}
	var list []Pair
	for _, name := range n.names {
		value := n.fields[name]
		switch {
		case value.kind == unusable:
		case value.kind != aText:
			s.l.problem(value.line, under(under(s.path, key), name),
				"expected a string, as in %s, and found %s", example, value.kind)
		case name == "" || value.text == "":
			s.l.problem(value.line, under(under(s.path, key), name), "names and values must not be empty")
		default:
			list = append(list, Pair{Name: name, Text: value.text, line: value.line})
		}
	}
	if len(n.names) == 0 {
		s.Problem(key, "is empty; say for example %s", example)
	}
	return list
}

// IsTable reports whether a key holds a table.
func (s *Section) IsTable(key string) bool { return s.Has(key) && s.at.fields[key].kind == aTable }

func Texts(list []Pair) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.Text)
	}
	return all
}

func (s *Section) sub(key string) *Section {
	n := s.get(key, aTable, "["+under(s.path, key)+"]")
	if n == nil {
		n = newTable(s.at.line)
	}
	return &Section{l: s.l, at: n, path: under(s.path, key), shape: under(s.shape, key)}
}

// named returns the sections below a key, such as each [views.NAME], in the order of the file.
func (s *Section) named(key string) (names []string, sections []*Section) {
	n := s.get(key, aTable, "["+under(s.path, key)+".NAME]")
	if n == nil {
		return nil, nil
	}
	for _, name := range n.names {
		path := under(under(s.path, key), name)
		at := n.fields[name]
		if at.kind != aTable {
			s.l.problem(at.line, path, "expected a table, [%s], and found %s", path, at.kind)
			continue
		}
		if problem := badName(name); problem != "" {
			s.l.problem(at.line, path, "%s", problem)
			continue
		}
		names = append(names, name)
		sections = append(sections, &Section{l: s.l, at: at, path: path, shape: under(under(s.shape, key), "*")})
	}
	return names, sections
}

// badName returns what is wrong with a name that the user chose, or "" for a valid name. The characters are restricted,
// because checkpoints, URLs, metrics and commands contain these names.
func badName(name string) string {
	const most = 64
	if len(name) > most {
		return fmt.Sprintf("names have at most %d characters", most)
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return "names are made of letters, digits, _ and -"
		}
	}
	if name == "" {
		return "names must not be empty"
	}
	return ""
}

// misspelt is the maximum number of letters in which a misspelled key differs from the intended key.
const misspelt = 2

// reportKeys reports unknown and missing keys of the table. A missing key is not reported if an unknown key seems to be
// a misspelling of it.
func (s *Section) reportKeys() {
	var meant []string
	for _, key := range s.at.names {
		if !slices.Contains(s.known, key) {
			s.Problem(key, "unknown key%s", nearest.Meant(key, s.known))
			if word, distance := nearest.Word(key, s.known); distance <= misspelt {
				meant = append(meant, word)
			}
		}
	}
	for _, n := range s.missing {
		if !slices.Contains(meant, n.key) {
			s.l.problem(s.at.line, s.path, "%s is missing; say for example %s = %s", n.key, n.key, n.example)
		}
	}
}

// ReadFile reads a file that the section names. A relative path starts at the configuration's directory.
func (s *Section) ReadFile(path string) ([]byte, error) { return s.l.readFile(s.l.resolve(path)) }

// allowOnly reports the section's known keys that are not in `keys`. `what` describes the kind of sink or view that
// can't have the reported keys. `reasons` says, by key, why it can't have them.
func (s *Section) allowOnly(keys []string, reasons map[string]string, what string) {
	for _, key := range s.at.names {
		switch {
		case !slices.Contains(s.known, key) || slices.Contains(keys, key):
		case reasons[key] != "":
			s.Problem(key, "does not belong to %s: %s", what, reasons[key])
		default:
			s.Problem(key, "does not belong to %s, which has: %s", what, strings.Join(keys, ", "))
		}
	}
}

func (l *loader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}
