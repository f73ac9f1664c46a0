package replicator

import "strings"

// Matches reports whether t covers the table with the given name: the name is t's own, or t's pattern matches it.
func (t *Table) Matches(database, table string) bool {
	return matches(t.Database, database) && matches(t.Table, table)
}

func matches(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0 // star is the index of the last *; from is the index in t after the part that this * matches
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(string(p[i:]), "*") == ""
}
