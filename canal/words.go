package canal

import "strings"

// word is a token: a word, a quoted identifier or a punctuation mark. Literals are left out.
type word struct {
	text   string
	quoted bool
}

func (w word) is(keyword string) bool { return !w.quoted && strings.EqualFold(w.text, keyword) }

// sqlMode is what a session's sql_mode says of how its statements are read, by the servers' bits.
type sqlMode uint64

const (
	ansiQuotes         sqlMode = 1 << 2
	noBackslashEscapes sqlMode = 1 << 20
)

// namesIn reports whether a quote encloses names, and not strings.
func (m sqlMode) namesIn(quote byte) bool { return quote == '`' || quote == '"' && m&ansiQuotes != 0 }

// escapesIn reports whether a backslash within such quotes escapes: in names it doesn't.
func (m sqlMode) escapesIn(quote byte) bool { return !m.namesIn(quote) && m&noBackslashEscapes == 0 }

// maxWords bounds what is looked at of a statement: table names stand near its beginning, and a statement in text may
// hold megabytes of values.
const maxWords = 100_000

// tokenize splits a statement into words. Comments and literals are left out, but for what MySQL and MariaDB execute of
// comments (/*!50100 … */, /*M! … */).
func tokenize(query []byte, mode sqlMode) []word {
	var words []word
	s := string(query)
	for i := 0; i < len(s) && len(words) < maxWords; {
		c := s[i]
		switch {
		case c == '`' || c == '"' || c == '\'':
			text, n := quoted(s[i:], mode)
			if mode.namesIn(c) {
				words = append(words, word{text, true})
			}
			i += n
		case c == '#' || strings.HasPrefix(s[i:], "--") && endsDashes(s[i+2:]):
			i += line(s[i:])
		case strings.HasPrefix(s[i:], noBreakSpace):
			i += len(noBreakSpace)
		case strings.HasPrefix(s[i:], "/*!") || strings.HasPrefix(s[i:], "/*M!"):
			i += strings.IndexByte(s[i:], '!') + 1
			for i < len(s) && s[i] >= '0' && s[i] <= '9' {
				i++
			}
		case strings.HasPrefix(s[i:], "/*"):
			n := strings.Index(s[i+2:], "*/")
			if n < 0 {
				return words
			}
			i += n + 4
		case strings.HasPrefix(s[i:], "*/"):
			i += 2
		case isWord(c):
			n := 1
			for i+n < len(s) && isWord(s[i+n]) && !strings.HasPrefix(s[i+n:], noBreakSpace) {
				n++
			}
			words = append(words, word{text: s[i : i+n]})
			i += n
		case c == '.' || c == ',' || c == '(' || c == ')' || c == ';':
			words = append(words, word{text: s[i : i+1]})
			i++
		default:
			i++
		}
	}
	return words
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// noBreakSpace is white space to the servers in the character sets of one byte, as latin1. In UTF-8 it is a letter,
// which no name is known to have.
const noBreakSpace = "\u00a0"

// endsDashes reports whether two dashes before s begin a comment: white space, a control character or the end is behind
// them. Else they are two signs.
func endsDashes(s string) bool {
	return s == "" || s[0] <= ' ' || s[0] == 0x7F || strings.HasPrefix(s, noBreakSpace)
}

func line(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n + 1
	}
	return len(s)
}

// quoted reads a quoted word and returns it with the bytes that it took. A doubled quote stands for itself.
func quoted(s string, mode sqlMode) (text string, n int) {
	q := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && mode.escapesIn(q) && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] != q:
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == q:
			i++
			b.WriteByte(q)
		default:
			return b.String(), i + 1
		}
	}
	return b.String(), len(s)
}
