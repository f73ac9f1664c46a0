// Package sqlname quotes names for statements to MySQL and MariaDB. Values are never quoted: they are bound.
package sqlname

import "strings"

// Quote is a name of a database, table, column or index as a statement takes it, whatever the sql_mode.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Account is an account as GRANT takes it, of what CURRENT_USER() says: USER@HOST, of which a user's name may have an
// @.
func Account(current string) string {
	user, host := current, "%"
	if at := strings.LastIndexByte(current, '@'); at >= 0 {
		user, host = current[:at], current[at+1:]
	}
	quote := func(s string) string {
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
	}
	return quote(user) + "@" + quote(host)
}
