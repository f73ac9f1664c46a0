// Package sqlname quotes names for statements to MySQL and MariaDB. Values are never quoted: they are bound.
package sqlname

import "strings"

// Quote is a name of a database, table, column or index as a statement takes it, whatever the sql_mode.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
