package canal

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"replicator"
	"replicator/canal/gtid"
)

type watched struct {
	replicator.Table
	id       string // the configured name; for a table of a pattern see memberID
	schema   atomic.Pointer[schema]
	end      logEnd                      // the end of the log when the schema was first read
	names    *columnNames                // maps values of the column role to Cell.Column; nil: they are the same
	rowSize  atomic.Int64                // the average size of a row in the last chunk of a scan; 0: unknown
	expected atomic.Pointer[expectation] // the last estimate of how many rows a scan reads; nil: none yet

	referring []referring // other tables' joins that find rows of this table; set once, before reading begins
}

// fatal marks an error that the operator must fix. The error concerns the views that the error names, or else all views
// of the table.
func (t *watched) fatal(err error) error {
	if err = replicator.Fatal(err); replicator.IsOfViews(err) {
		return err
	}
	return replicator.OfTable(t.Name, err)
}

// classify marks an error of a query as Fatal if a retry can't fix it. The error then concerns only the views of this
// table.
func (t *watched) classify(err error) error {
	if err = classify(err); replicator.IsFatal(err) {
		if t.Pattern {
			return membersChanged(t.Name, err)
		}
		return t.fatal(err)
	}
	return err
}

func (t *watched) roleNames() []string {
	names := slices.Concat(t.Key, []string{t.Column, t.Version, t.Body})
	return slices.DeleteFunc(names, func(column string) bool { return column == "" })
}

// readers returns the views that need a column, or none if all views of the table need it. The case of the column's
// name doesn't matter.
func (t *watched) readers(column string) (views []string) {
	if containsFold(t.roleNames(), column) {
		return nil
	}
	for name, some := range t.Readers {
		if name == "*" || strings.EqualFold(name, column) {
			views = append(views, some...)
		}
	}
	slices.Sort(views)
	return slices.Compact(views)
}

// limitToViews marks an error about a column so that it concerns only the views that need the column.
func (t *watched) limitToViews(column string, err error) error {
	if views := t.readers(column); len(views) > 0 {
		return replicator.OfView(err, views...)
	}
	return err
}

// ofJoiners marks an error about a lookup (the read of a joined table), so that it concerns only the views with that
// join.
func (t *watched) ofJoiners(lookup string, err error) error {
	if views := t.Joiners[lookup]; len(views) > 0 {
		return replicator.OfView(err, views...)
	}
	return replicator.OfTable(t.Name, err)
}

// readOf returns the listed columns that have a role or that a view reads. The lists are in lower case.
func (t *watched) readOf(lists ...[]string) (read []string) {
	names := slices.Concat(lists...)
	for _, column := range slices.Concat(t.roleNames(), t.Columns, t.Optional) {
		if slices.Contains(names, strings.ToLower(column)) {
			read = append(read, column)
		}
	}
	if slices.Contains(t.Columns, "*") {
		read = append(read, names...)
	}
	return read
}

func (t *watched) neededBy(column string) string {
	const most = 3
	switch views := t.readers(column); {
	case len(views) == 0:
		return "field"
	case len(views) > most:
		return fmt.Sprintf("needed by %s and %d more", strings.Join(views[:most], ", "), len(views)-most)
	default:
		return "needed by " + strings.Join(views, ", ")
	}
}

// check compares the configuration with the table's current columns, so that a mistake shows at the start and not at
// the first row.
func (t *watched) check(f gtid.Flavor) error {
	x, err := newSelection(t)
	if err != nil {
		return err
	}
	if err := t.schema.Load().countable(&t.Table); err != nil {
		return err
	}
	for _, i := range x.key {
		if !canBeKey(x.columns[i].kind) {
			return fmt.Errorf("table %s: column %s (key) is a %s, which can't be a key", t.Name,
				x.columns[i].Name, x.columns[i].dataType)
		}
	}
	return nil
}
