package mysql

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
)

// A column that the program makes (create = true) says in its COMMENT what it was made for, as in
// 'replicator: email (5f0a91c3)'. A view that is defined anew can so tell three kinds of columns apart that look alike:
//
//   - its own, made for the same as they are for now: they stay as they are, also where somebody gave them another type;
//   - its own, made for something else or no longer needed: a rebuild makes them anew, or leaves them out (refit.go);
//   - those of somebody else, which a rebuild must not lose (foreign.go). They have no such comment. Nor has one of the
//     program's that somebody altered without saying it again: it is theirs now.
//
// The digits are what counts: what the server has of a long expression may be cut.
const originPrefix = "replicator: "

// mostShown is how many characters of a path or an expression a comment shows. A server takes 1,024 in all.
const mostShown = 200

// originOf is what a view's column is made for: which values of what, and of which type if the configuration says one.
// It is "" for a view whose table is somebody's own.
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

// plain is a text that a comment can show: no character of it means something in a literal, whatever the sql_mode.
func plain(text string) string {
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || r == '\\' || r == '\'' || r > '~' {
			return '.'
		}
		return r
	}, text)
	return shown[:min(len(shown), mostShown)]
}

// isOurs reports whether the program made the column, and nobody altered it.
func (c *column) isOurs() bool { return strings.HasPrefix(c.comment, originPrefix) }

// outdated reports which columns of a table the program made for something else than its view has them for now.
func outdated(v *replicator.View, sh *shape) func(*column) bool {
	now := map[string]bool{}
	for _, u := range usesOf(v) {
		if c := sh.column(u.Name); c != nil {
			now[c.name] = c.comment == originOf(v, u)
		}
	}
	return func(c *column) bool { return c.isOurs() && !now[c.name] }
}
