package survey

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// quoted returns s as a TOML string. A ${ in s is escaped, so that the configuration does not replace it as a variable.
func quoted(s string) string {
	s = strings.ReplaceAll(s, "${", "$${")
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// bare returns a key of an inline table. The key is quoted only if TOML requires quotes.
func bare(key string) string {
	if badName(key) {
		return strings.ReplaceAll(quoted(key), "$${", "${") // in keys, variables are not replaced
	}
	return key
}

// one returns texts as a TOML list. If there is only one text, it returns that text without brackets.
func one(texts []string) string {
	if len(texts) == 1 {
		return quoted(texts[0])
	}
	return list(texts)
}

func list(texts []string) string {
	all := make([]string, len(texts))
	for i, s := range texts {
		all[i] = quoted(s)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// pair is a name and its text, such as a key of an inline table and its value.
type pair struct{ name, text string }

func inline(pairs []pair) string {
	all := make([]string, len(pairs))
	for i, p := range pairs {
		all[i] = bare(p.name) + " = " + quoted(p.text)
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// shown returns a name for a comment. It escapes characters that would end the line or are invisible.
func shown(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) ||
		strings.TrimSpace(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// pathName returns a property's name as a part of a path. The name is quoted if it would otherwise mean something else.
func pathName(name string) string {
	if name != "" && !strings.ContainsAny(name, `.[]"`) && name[0] != '$' && name[0] != '=' {
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// maxName is the longest name of a view or table in a configuration, and of a MySQL table.
const maxName = 64

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}

// badName reports whether a configuration refuses a name or TOML requires quotes for it.
func badName(name string) bool {
	return name == "" || len(name) > maxName || strings.ContainsFunc(name,
		func(r rune) bool { return !isWord(r) && r != '-' })
}

// word converts a text to a name that a configuration accepts, or "" if no character remains.
func word(text string) string {
	var b strings.Builder
	for _, r := range text {
		if isWord(r) {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
			b.WriteByte('_')
		}
	}
	return strings.Trim(b.String(), "_")
}

// baseName returns the start of views' names: the first text that gives a valid name.
func baseName(texts ...string) string {
	for _, text := range texts {
		if name := word(text); name != "" {
			return name
		}
	}
	return "view"
}

// DSN is a data source name without its password.
type DSN struct {
	before, after string
	variable      string // the environment variable with the password; "" if there is none
}

// HidePassword replaces the password in a DSN (in go-sql-driver's form) by the named environment variable.
func HidePassword(dsn, variable string) DSN {
	// As in the driver, the database comes after the last slash, the address after the last @ before that slash, and
	// the password after the first colon.
	slash := strings.LastIndexByte(dsn, '/')
	at := strings.LastIndexByte(dsn[:max(slash, 0)], '@')
	colon := strings.IndexByte(dsn[:max(at, 0)], ':')
	if colon < 0 || colon+1 == at {
		return DSN{before: dsn}
	}
	return DSN{before: dsn[:colon+1], after: dsn[at:], variable: variable}
}

// quoted returns the DSN as a TOML string. If the DSN has a password, the string has an environment variable instead,
// such as ${SINK_PASSWORD}.
func (d DSN) quoted() string {
	before, after := quoted(d.before), quoted(d.after)
	if d.variable == "" {
		return before
	}
	return before[:len(before)-1] + "${" + d.variable + "}" + after[1:]
}
