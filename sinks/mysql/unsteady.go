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

// Rows are found by their key, a counter's rows by their group. If the server changes such a column automatically, when
// another column is written, a row gets a key that no cell has. So such a table is refused.

type trigger struct{ name, body string }

// readTriggers reads the triggers that run before a row is written. A user without the right to see triggers sees none.
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

// unsteady lists key columns, or columns of a counter's group, that the server changes automatically.
func unsteady(k *keeper, sh *shape) []string {
	columns, what := k.keys, "the key"
	if k.ledger && len(k.fields) > 0 {
		columns, what = k.group(), "the group"
	}
	var problems []string
	for _, c := range columns {
		if c.updates {
			problems = append(problems, fmt.Sprintf("its column %s is part of %s, but the server sets it with each "+
				"change "+
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

// steadyTime returns the end of the declaration of a TIMESTAMP column: NULL, or NOT NULL with a default. Without this
// end, and with explicit_defaults_for_timestamp off, the first NOT NULL TIMESTAMP of a table gets ON UPDATE
// CURRENT_TIMESTAMP.
func steadyTime(nullable bool) string {
	if nullable {
		return " NULL"
	}
	return " NOT NULL DEFAULT '2000-01-01 00:00:00'"
}

var assignments = regexp.MustCompile(`(?is)\bSET\b([^;]*)`)

// sets reports whether a trigger seems to set a column. It mistakes a comparison after a comma for an assignment.
func (t trigger) sets(column string) bool {
	name := regexp.QuoteMeta(column)
	assigns := regexp.MustCompile("(?is)(^|,)\\s*NEW\\s*\\.\\s*(" + name + "|" + regexp.QuoteMeta(sqlname.Quote(column)) +
		")\\s*:?=")
	return slices.ContainsFunc(assignments.FindAllStringSubmatch(t.body, -1), func(m []string) bool {
		return assigns.MatchString(strings.TrimSpace(m[1]))
	})
}
