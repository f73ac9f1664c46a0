package mysql

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
)

// A column that the program creates (create = true) has a COMMENT with its purpose, such as 'replicator: email
// (5f0a91c3)'. So when a view gets a new definition, its table has three kinds of columns:
//
//   - columns that the program created for their present purpose. They stay, even if their type was changed by hand;
//   - columns that the program created for a different purpose, or that are no longer needed. A rebuild recreates or
//     drops them (refit.go);
//   - columns of other programs, which a rebuild must not lose (foreign.go). They have no such comment. A column of the
//     program's becomes one of these if it is altered by hand without repeating the comment.
//
// Only the hash in the comment is compared, because the server may have cut a long expression.
const originPrefix = "replicator: "

// mostShown is how many characters of a path or an expression a column's COMMENT shows. Servers limit the whole COMMENT
// to 1,024 characters.
const mostShown = 200

// originOf describes the purpose of a view's column: the values that it holds, and its type if the configuration names
// one. It returns "" for a view whose table the program does not create.
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

// plain replaces characters that are special in a literal, whatever the sql_mode, and shortens the text to mostShown.
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

// outdated returns a function that reports whether the program created a column for a purpose that differs from the
// column's present one in the view.
func outdated(v *replicator.View, sh *shape) func(*column) bool {
	now := map[string]bool{}
	for _, u := range usesOf(v) {
		if c := sh.column(u.Name); c != nil {
			now[c.name] = c.comment == originOf(v, u)
		}
	}
	return func(c *column) bool { return c.isOurs() && !now[c.name] }
}
