package mysql

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
)

// originPrefix begins the COMMENT of each column that the program creates (create = true), such as 'replicator: email
// (5f0a91c3)'. The hash stands for the column's purpose. If a new definition of the view needs another purpose, a
// rebuild drops or recreates the column.
//
// A column without such a comment belongs to another program, and a rebuild must not lose it. Only hashes are compared,
// because the server may cut a long comment.
const originPrefix = "replicator: "

// mostShown is how many characters of a path or an expression a column's COMMENT shows. Servers limit the whole COMMENT
// to 1,024 characters.
const mostShown = 200

// originOf returns the COMMENT of a column: the path or expression that its values come from, and a hash of the
// column's purpose (its role, feeds, path or expression, configured type and joins). It returns "" if the program does
// not create the view's table.
func originOf(v *replicator.View, u use) string {
	settings := settingsOf(v)
	if !settings.Create {
		return ""
	}
	of, shows := u.Path, u.Path
	switch {
	case u.role == ofVersion:
		shows = "the version"
	case u.role == ofSum && v.Sum == "":
		of, shows = "", "the number of cells"
	case u.role == ofSum:
		of, shows = v.Sum, v.Sum
	}
	parts := []any{u.role, v.From, of, settings.Types[u.Name]}
	if len(v.Joins) > 0 {
		parts = append(parts, v.Joins)
	}
	all, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("marshaling a definition: %v", err)) // numbers and texts always marshal
	}
	hash := sha256.Sum256(all)
	return fmt.Sprintf("%s%s (%x)", originPrefix, plain(shows), hash[:4])
}

// plain makes a text safe in an SQL literal under every sql_mode: dots replace quotes, backslashes, control and
// non-ASCII characters. It also shortens the text to mostShown.
func plain(text string) string {
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || r == '\\' || r == '\'' || r > '~' {
			return '.'
		}
		return r
	}, text)
	return shown[:min(len(shown), mostShown)]
}

// isOurs reports whether the program created the column. An ALTER without the comment makes it another program's.
func (c *column) isOurs() bool { return strings.HasPrefix(c.comment, originPrefix) }

// outdated returns a function that reports whether the program created a column for another purpose than the view's
// present one.
func outdated(v *replicator.View, sh *shape) func(*column) bool {
	now := map[string]bool{}
	for _, u := range usesOf(v) {
		if c := sh.column(u.Name); c != nil {
			now[c.name] = c.comment == originOf(v, u)
		}
	}
	return func(c *column) bool { return c.isOurs() && !now[c.name] }
}
