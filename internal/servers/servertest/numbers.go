package servertest

import (
	"fmt"
	"strings"
)

// Numbers returns a table expression for a FROM clause. Its column i contains the numbers from 0 to n-1. It avoids
// syntax that MySQL 5.7 lacks.
func Numbers(n int) string {
	digit := "(SELECT 0 AS d"
	for d := 1; d < 10; d++ {
		digit += fmt.Sprintf(" UNION ALL SELECT %d", d)
	}
	digit += ")"
	var sum, from []string
	for place, scale := 0, 1; place == 0 || scale < n; place, scale = place+1, scale*10 {
		sum = append(sum, fmt.Sprintf("%d * d%d.d", scale, place))
		from = append(from, fmt.Sprintf("%s AS d%d", digit, place))
	}
	return fmt.Sprintf("(SELECT i FROM (SELECT %s AS i FROM %s) AS every WHERE i < %d) AS numbers",
		strings.Join(sum, " + "), strings.Join(from, ", "), n)
}
