package survey

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// quoted is a TOML string whose value is s after the configuration has replaced variables in it.
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

// bare is a key of an inline table: as it is if TOML takes it so, else quoted.
func bare(key string) string {
	if badName(key) {
		return strings.ReplaceAll(quoted(key), "$${", "${") // variables are replaced in values only
	}
	return key
}

// one is a list, or its only element without brackets.
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

// pair is a name and a text of an inline table.
type pair struct{ name, text string }

func inline(pairs []pair) string {
	all := make([]string, len(pairs))
	for i, p := range pairs {
		all[i] = bare(p.name) + " = " + quoted(p.text)
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// shown is a name in a comment: as it is, but for what would end the line or can't be seen.
func shown(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) ||
		strings.TrimSpace(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// pathName is a property's name as a part of a path: in double quotes where a path would take it for something else.
func pathName(name string) string {
	if name != "" && !strings.ContainsAny(name, `.[]"`) && name[0] != '$' && name[0] != '=' {
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// maxName is the longest name of a view or table of a configuration, and of a MySQL table.
const maxName = 64

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}

// badName reports whether a configuration refuses a name, or TOML wants it quoted.
func badName(name string) bool {
	return name == "" || len(name) > maxName || strings.ContainsFunc(name,
		func(r rune) bool { return !isWord(r) && r != '-' })
}

// word makes a name that a configuration takes of any text, "" if nothing is left of it.
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

// baseName is what names of views are made of: the first of the texts that leaves a name.
func baseName(texts ...string) string {
	for _, text := range texts {
		if name := word(text); name != "" {
			return name
		}
	}
	return "view"
}

// DSN is a data source's name without its password.
type DSN struct {
	before, after string
	variable      string // of the environment, which holds the password; "" if there is none
}

// HidePassword takes the password out of a DSN in go-sql-driver's form; the named environment variable stands in its
// place.
func HidePassword(dsn, variable string) DSN {
	// As the driver has it: the database follows the last slash, the address the last @ before it, the password the first
	// colon.
	slash := strings.LastIndexByte(dsn, '/')
	at := strings.LastIndexByte(dsn[:max(slash, 0)], '@')
	colon := strings.IndexByte(dsn[:max(at, 0)], ':')
	if colon < 0 || colon+1 == at {
		return DSN{before: dsn}
	}
	return DSN{before: dsn[:colon+1], after: dsn[at:], variable: variable}
}

// quoted is the DSN as a TOML string, with the variable to be replaced.
func (d DSN) quoted() string {
	before, after := quoted(d.before), quoted(d.after)
	if d.variable == "" {
		return before
	}
	return before[:len(before)-1] + "${" + d.variable + "}" + after[1:]
}
