// Package sqlname quotes names for MySQL and MariaDB statements. Statements never contain values: values are bound as
// parameters.
package sqlname

import "strings"

// Quote quotes the name of a database, table, column or index. It works with any sql_mode.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Account quotes an account for GRANT, given CURRENT_USER(): USER@HOST, where the user's name may have an @.
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
