package mysql

import (
	"context"
	"fmt"
	"strings"
)

// Tables of views may refer to each other by foreign keys, and parents and children arrive in any order. In the end
// both rows exist, if the source has them. So once a foreign key has refused a row, the sink writes that table without
// foreign key checks. A foreign key to or from another program's table is always checked.

const (
	errNoParent = 1452
	errChildren = 1451
)

// unordered returns how many tables are written without foreign key checks.
func (t *Target) unordered() (n int) {
	for _, k := range t.kept {
		if k.unordered.Load() {
			n++
		}
	}
	return n
}

// unorder turns off the checks of foreign keys between views' tables, if err says that a foreign key refused a row.
// `before` is what t.unordered() returned before the transaction. again: this call or a concurrent one has turned
// checks off since, so the transaction should be repeated.
func (t *Target) unorder(ctx context.Context, err error, before int) (again bool, failed error) {
	if !is(err, errNoParent, errChildren) || !t.server.hasUnchecked() {
		return false, nil
	}
	for _, k := range t.kept {
		if k.unordered.Load() || k.ordered.Load() {
			continue
		}
		among, failed := t.sink.refersAmongViews(ctx, k)
		if failed != nil {
			return false, failed
		}
		k.ordered.Store(!among)
		if among && k.unordered.CompareAndSwap(false, true) {
			t.sink.log.Info("a table's foreign keys to other views' tables are not checked while its rows are written, "+
				"because rows of different views come in any order", "sink", t.sink.name, "view", k.view.Name)
		}
	}
	return t.unordered() > before, nil
}

// lookAtReferences turns the foreign key checks of a view's table on again if another program's table now refers to it.
func (t *Target) lookAtReferences(ctx context.Context, k *keeper) error {
	if !k.unordered.Load() {
		return nil
	}
	among, err := t.sink.refersAmongViews(ctx, k)
	if err == nil && !among {
		k.unordered.Store(false)
	}
	return err
}

// refersAmongViews reports whether a view's table has foreign keys, or is referred to by some, and all of them are
// between tables of views.
func (s *Sink) refersAmongViews(ctx context.Context, k *keeper) (bool, error) {
	const doing = "looking for foreign keys"
	targets, err := texts(ctx, s.db, "SELECT DISTINCT target FROM "+viewsTable+" WHERE name IS NOT NULL")
	if err != nil {
		return false, ofViews(err)
	}
	views := map[string]bool{}
	for _, target := range targets {
		views[strings.ToLower(s.tableName(target))] = true
	}
	database, table := split(settingsOf(k.view).Table, s.database)
	others, err := texts(ctx, s.db, "SELECT DISTINCT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') "+
		"FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = ? AND REFERENCED_TABLE_NAME = ? "+
		"UNION SELECT DISTINCT CONCAT('`', REFERENCED_TABLE_SCHEMA, '`.`', REFERENCED_TABLE_NAME, '`') "+
		"FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND "+
		"REFERENCED_TABLE_NAME IS NOT NULL", database, table, database, table)
	if err != nil {
		return false, classify(err, fmt.Sprintf("view %s: %s", k.view.Name, doing))
	}
	for _, other := range others {
		if !views[strings.ToLower(other)] {
			return false, nil
		}
	}
	return len(others) > 0, nil
}

// hasUnchecked reports whether a single statement can skip foreign key checks. MySQL 5.7 has only a session setting,
// which would stay if a statement fails.
func (s *server) hasUnchecked() bool { return s.isMariaDB() || !strings.HasPrefix(s.version, "5.") }

// beginWrite appends the first words of a statement that changes a view's table: `verb`, which is INSERT or DELETE, and
// `rest`. If the server must not check foreign keys (see unorder), beginWrite adds the option that turns this check
// off.
func (w *writer) beginWrite(k *keeper, verb string, rest ...string) {
	switch {
	case !k.unordered.Load():
	case w.server.isMariaDB():
		verb = "SET STATEMENT foreign_key_checks = 0 FOR " + verb
	default:
		verb += " /*+ SET_VAR(foreign_key_checks = OFF) */"
	}
	w.write(verb, " ")
	w.write(rest...)
}
