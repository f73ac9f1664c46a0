// Package keytemplate reads key templates: text and {path}, {path:uuid}, {path:hex} or {path:base64}. Braces in the
// text are doubled. Text in double quotes is part of the path.
package keytemplate

import (
	"errors"
	"strings"
)

// Part is a piece of a template: text, and the value after it.
type Part struct {
	Text string
	Path string
	Form string // how the value is shown, one of Forms; "" if the template doesn't say
}

// Forms returns the forms that a template may name.
func Forms() []string { return []string{"uuid", "hex", "base64"} }

// String formats the part's path and form as a template shows them, such as {id:hex}. It leaves out Text.
func (p Part) String() string {
	if p.Form == "" {
		return "{" + p.Path + "}"
	}
	return "{" + p.Path + ":" + p.Form + "}"
}

// CutName cuts a path's name, which may be in double quotes, from the start of s.
func CutName(s string) (name, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, `.["]`)
		if end < 0 {
			end = len(s)
		}
		if end == 0 {
			return "", s, errors.New("a name is empty; write names with odd characters in double quotes")
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", errQuote
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", errQuote
}

var errQuote = errors.New("a quote is not closed")

// Parse splits a template into its parts and the text after the last one. It does not check paths or forms.
func Parse(template string) (parts []Part, tail string, err error) {
	var text strings.Builder
	for rest := template; rest != ""; {
		c := rest[0]
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			text.WriteByte(c)
			rest = rest[2:]
		case c == '}':
			return nil, "", errors.New("a } in the template closes nothing; write }} for the character itself")
		case c == '{':
			end := unquoted(rest, '}')
			if end < 0 {
				return nil, "", errors.New("a { in the template is not closed by }; write {{ for the character itself")
			}
			p := Part{Text: text.String(), Path: rest[1:end]}
			if colon := unquoted(p.Path, ':'); colon >= 0 {
				if p.Path, p.Form = p.Path[:colon], p.Path[colon+1:]; p.Form == "" {
					return nil, "", errors.New("a \":\" in the template has no form after it; use uuid, hex or " +
						"base64, or remove the \":\"")
				}
			}
			text.Reset()
			parts, rest = append(parts, p), rest[end+1:]
		default:
			text.WriteByte(c)
			rest = rest[1:]
		}
	}
	return parts, text.String(), nil
}

// unquoted returns the index of the first c outside double quotes; -1 if there is none.
func unquoted(s string, c byte) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == c:
			return i
		}
	}
	return -1
}
