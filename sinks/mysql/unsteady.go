package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"replicator/internal/sqlname"
)

// A row is found by its key, and a counter's by its group. A column there that changes when another one of the row is
// written leaves the row behind under a value that no cell has. So it is refused. All other columns of a view are
// written by name whenever one of them is.

// trigger is one that runs before a row is written.
type trigger struct{ name, body string }

// readTriggers reads those that may change what is written. A user without the right to see them sees none.
func (s *Sink) readTriggers(ctx context.Context, tx *sql.Tx, sh *shape) error {
	return eachRow(ctx, tx, func(rows *sql.Rows) error {
		var t trigger
		err := rows.Scan(&t.name, &t.body)
		sh.triggers = append(sh.triggers, t)
		return err
	}, "SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = ? AND "+
		"EVENT_OBJECT_TABLE = ? AND ACTION_TIMING = 'BEFORE' AND EVENT_MANIPULATION IN ('INSERT', 'UPDATE') "+
		"ORDER BY TRIGGER_NAME", sh.database, sh.table)
}

// unsteady finds columns of the key, or of a counter's group, that change by themselves.
func unsteady(k *keeper, sh *shape) []string {
	columns, what := k.keys, "the key"
	if k.ledger && len(k.fields) > 0 {
		columns, what = k.group(), "the group"
	}
	var problems []string
	for _, c := range columns {
		if c.updates {
			problems = append(problems, fmt.Sprintf("its column %s is part of %s, and gets the time of each change "+
				"(ON UPDATE CURRENT_TIMESTAMP): ALTER TABLE %s MODIFY %s %s%s", c.name, what, k.table, c.quoted, c.declared,
				steadyTime(c.nullable)))
		}
		for _, t := range sh.triggers {
			if t.sets(c.name) {
				problems = append(problems, fmt.Sprintf("its trigger %s sets column %s, which is part of %s: "+
					"DROP TRIGGER %s.%s, or make it leave that column alone", t.name, c.name, what, sqlname.Quote(sh.database),
					sqlname.Quote(t.name)))
			}
		}
	}
	return problems
}

// steadyTime ends the declaration of a TIMESTAMP. Without a default the first one of a table that is NOT NULL gets ON
// UPDATE CURRENT_TIMESTAMP where explicit_defaults_for_timestamp is off.
func steadyTime(nullable bool) string {
	if nullable {
		return " NULL"
	}
	return " NOT NULL DEFAULT '2000-01-01 00:00:00'"
}

// assignments are the statements of a trigger that may set columns.
var assignments = regexp.MustCompile(`(?is)\bSET\b([^;]*)`)

// sets reports whether a trigger seems to set a column. What it compares after a comma counts, too.
func (t trigger) sets(column string) bool {
	name := regexp.QuoteMeta(column)
	assigns := regexp.MustCompile("(?is)(^|,)\\s*NEW\\s*\\.\\s*(" + name + "|" + regexp.QuoteMeta(sqlname.Quote(column)) +
		")\\s*:?=")
	return slices.ContainsFunc(assignments.FindAllStringSubmatch(t.body, -1), func(m []string) bool {
		return assigns.MatchString(strings.TrimSpace(m[1]))
	})
}
