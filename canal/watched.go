package canal

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"replicator"
	"replicator/canal/gtid"
)

// watched is a watched table: its configuration, and its present shape.
type watched struct {
	replicator.Table
	id       string // the name, and for a table of a pattern the table: see memberID
	schema   atomic.Pointer[schema]
	end      logEnd                      // where the log ended when the schema was first read
	names    *columnNames                // nil: the column role's values are all different
	rowSize  atomic.Int64                // the average in a scan's last chunk; 0: unknown
	expected atomic.Pointer[expectation] // of the last scan that was asked for

	referring []referring // by which columns other tables' rows are joined with this one's; not changed while the table is read
}

// fatal marks an error that the operator must fix, and that concerns the views of the table: all, unless it names some.
func (t *watched) fatal(err error) error {
	if err = replicator.Fatal(err); replicator.IsOfViews(err) {
		return err
	}
	return replicator.OfTable(t.Name, err)
}

// classify is the function classify for the error of a query of the table. A problem of the table doesn't concern views
// of other tables.
func (t *watched) classify(err error) error {
	if err = classify(err); replicator.IsFatal(err) {
		if t.Pattern {
			return membersChanged(t.Name, err)
		}
		return t.fatal(err)
	}
	return err
}

// roleNames are the columns that have a role.
func (t *watched) roleNames() []string {
	names := slices.Concat(t.Key, []string{t.Column, t.Version, t.Body})
	return slices.DeleteFunc(names, func(column string) bool { return column == "" })
}

// readers are the views that need a column, in any case of its letters; none if all readers of the table need it.
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

// ofReaders marks an error about a column as that of the views that need it.
func (t *watched) ofReaders(column string, err error) error {
	if views := t.readers(column); len(views) > 0 {
		return replicator.OfView(err, views...)
	}
	return err
}

// ofJoiners marks an error with a lookup as that of the views with that join.
func (t *watched) ofJoiners(lookup string, err error) error {
	if views := t.Joiners[lookup]; len(views) > 0 {
		return replicator.OfView(err, views...)
	}
	return replicator.OfTable(t.Name, err)
}

// readOf are those of some columns, given in lower case, that have a role or that a view reads.
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

// neededBy says which views need a column.
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

// check compares the configuration with the table as it is now, so that a mistake shows at the start and not at the
// first row.
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
