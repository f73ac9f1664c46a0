package mysql

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
)

// A column that the program makes (create = true) has a COMMENT with its purpose, such as 'replicator: email
// (5f0a91c3)'. So for a new definition of the view, columns are of three kinds:
//
//   - the program's, made for their present purpose: they stay, even if someone gave them another type;
//   - the program's, made for another purpose or no longer needed: a rebuild recreates or drops them (refit.go);
//   - columns of others, which a rebuild must not lose (foreign.go). They have no such comment. If someone altered the
//     program's column without repeating the comment, it is now one of these.
//
// Only the hash in the comment is compared, because the server may have cut a long expression.
const originPrefix = "replicator: "

// mostShown is how many characters of a path or an expression a comment shows. A server's limit is 1,024 in all.
const mostShown = 200

// originOf describes the purpose of a view's column: the values that it holds, and its type if the configuration names
// one. It is "" for a view whose table belongs to others.
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
		panic(fmt.Sprintf("a definition is plain data: %v", err)) // numbers and texts always marshal
	}
	hash := sha256.Sum256(all)
	return fmt.Sprintf("%s%s (%x)", originPrefix, plain(shows), hash[:4])
}

// plain makes a text safe for a comment: no character of it is special in a literal, whatever the sql_mode.
func plain(text string) string {
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || r == '\\' || r == '\'' || r > '~' {
			return '.'
		}
		return r
	}, text)
	return shown[:min(len(shown), mostShown)]
}

// isOurs reports whether the program made the column, and it has not been altered since.
func (c *column) isOurs() bool { return strings.HasPrefix(c.comment, originPrefix) }

// outdated reports which columns of a table the program made for another purpose than their present one in the view.
func outdated(v *replicator.View, sh *shape) func(*column) bool {
	now := map[string]bool{}
	for _, u := range usesOf(v) {
		if c := sh.column(u.Name); c != nil {
			now[c.name] = c.comment == originOf(v, u)
		}
	}
	return func(c *column) bool { return c.isOurs() && !now[c.name] }
}
