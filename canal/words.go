package canal

import "strings"

// word is a token of a statement: a keyword or a name, a quoted name, a string, or a punctuation mark.
type word struct {
	text    string
	quoted  bool // a quoted identifier, or a string
	literal bool // a string
	at      int  // the word's offset in the statement
}

func (w word) is(keyword string) bool { return !w.quoted && strings.EqualFold(w.text, keyword) }

func (w word) isName() bool { return !w.literal && (w.quoted || w.text != "" && isWord(w.text[0])) }

// sqlMode has the bits of a session's sql_mode that decide how its statements are parsed.
type sqlMode uint64

const (
	ansiQuotes         sqlMode = 1 << 2
	noBackslashEscapes sqlMode = 1 << 20
	strict             sqlMode = 1<<21 | 1<<22 // STRICT_TRANS_TABLES, STRICT_ALL_TABLES
)

// namesIn reports whether a quote encloses a name, and not a string.
func (m sqlMode) namesIn(quote byte) bool { return quote == '`' || quote == '"' && m&ansiQuotes != 0 }

// escapesIn reports whether a backslash is an escape character inside quotes of this kind.
func (m sqlMode) escapesIn(quote byte) bool { return !m.namesIn(quote) && m&noBackslashEscapes == 0 }

// maxWords limits how much of a statement is read. Table names are near the beginning, and a statement may contain
// megabytes of values.
const maxWords = 100_000

type literals int

const (
	withoutLiterals literals = iota // strings are left out: a statement may contain megabytes of them
	withLiterals
)

// tokenize splits a statement into words. It leaves out comments, but not those that MySQL and MariaDB execute
// (/*!50100 … */, /*M! … */). If a server does not execute such a comment, it removes the exclamation mark
// before it logs the statement.
func tokenize(query []byte, mode sqlMode, strs literals) []word {
	var words []word
	s := string(query)
	for i := 0; i < len(s) && len(words) < maxWords; {
		c := s[i]
		switch {
		case c == '`' || c == '"' || c == '\'':
			text, n := quoted(s[i:], mode)
			if isString := !mode.namesIn(c); !isString || strs == withLiterals {
				words = append(words, word{text: text, quoted: true, literal: isString, at: i})
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
			words = append(words, word{text: s[i : i+n], at: i})
			i += n
		case c == '.' || c == ',' || c == '(' || c == ')' || c == ';':
			words = append(words, word{text: s[i : i+1], at: i})
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

// noBreakSpace is white space for the servers in one-byte character sets such as latin1. In UTF-8 it counts as a
// letter, but names almost never contain it.
const noBreakSpace = "\u00a0"

// endsDashes reports whether two dashes before s begin a comment, because white space, a control character or the end
// follows them. Otherwise they are two minus signs.
func endsDashes(s string) bool {
	return s == "" || s[0] <= ' ' || s[0] == 0x7F || strings.HasPrefix(s, noBreakSpace)
}

func line(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n + 1
	}
	return len(s)
}

// quoted reads a quoted name or string at the beginning of s. It returns the text and its length in s. A doubled quote
// means one quote character.
func quoted(s string, mode sqlMode) (text string, n int) {
	q := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && mode.escapesIn(q) && i+1 < len(s):
			i++
			b.WriteString(escaped(s[i]))
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

func escaped(c byte) string {
	switch c {
	case '0':
		return "\x00"
	case 'b':
		return "\b"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case 'Z':
		return "\x1a"
	case '%', '_': // an escape for LIKE: the backslash stays
		return "\\" + string(c)
	}
	return string(c)
}
