package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// A table that was created for an earlier definition of its view (create = true) may be unable to hold the present one:
// a field has no column, a counter's sum is NOT NULL and no longer filled, a primary key lacks a value. A rebuild
// alters it:
//
//   - Beside the live table. The shadow is made LIKE the live table, to keep indexes, defaults and partitions that were
//     added, and is altered in one statement while it is empty. Missing columns are added as in a table that is
//     created. Columns that the program made for another purpose (origin.go) are dropped. The primary key is recreated
//     if it doesn't fit, and an index that loses a column is dropped.
//   - In place, if a swap would lose parts that are not the view's, or if no swap is possible (several shards). A row
//     view's table gets columns for new fields, which accept NULL. That harms no reader or writer of the table.
//     Anything else would change rows that readers see before they are filled, so it is refused, with the necessary
//     ALTER.
//
// A table is never altered if its view is registered by this definition, or not at all: its missing parts were removed
// by hand, or were never the view's. A table of a view without create = true belongs to others.

// refit is how to make a table able to hold its view.
type refit struct {
	view  *replicator.View
	sh    *shape
	added []*declared
	gone  []string // columns
	parts []string // of an ALTER TABLE, without the added columns
}

// fits reports whether a table is as its view needs it, and none of its columns was made for another purpose.
func (s *Sink) fits(v *replicator.View, sh *shape) bool {
	_, problems := s.plan(v, sh)
	return sh.isView || len(problems) == 0 && !slices.ContainsFunc(sh.columns, outdated(v, sh))
}

// refitting finds the changes that a shadow needs to hold its view; nil if it needs none.
func (s *Sink) refitting(ctx context.Context, v *replicator.View, sh *shape, from *origins) (*refit, error) {
	if s.fits(v, sh) {
		return nil, nil
	}
	return s.refitTo(ctx, v, sh, from, outdated(v, sh))
}

// extending finds the changes for a table that is filled in place. Columns made for another purpose stay there.
func (s *Sink) extending(ctx context.Context, v *replicator.View, sh *shape, from *origins) (*refit, error) {
	if _, problems := s.plan(v, sh); len(problems) == 0 || sh.isView {
		return nil, nil
	}
	f, err := s.refitTo(ctx, v, sh, from, func(*column) bool { return false })
	if err != nil || f == nil || !f.extends() {
		return nil, err // keeping the view will report the problem
	}
	return f, nil
}

// refitTo is how to give a table the columns and keys of its view, recreating old ones; nil if nothing makes it fit.
func (s *Sink) refitTo(ctx context.Context, v *replicator.View, sh *shape, from *origins,
	old func(*column) bool) (*refit, error) {
	stays := *sh
	stays.columns = slices.DeleteFunc(slices.Clone(sh.columns), old)
	columns, err := s.declare(ctx, v, from, &stays)
	if err != nil {
		return nil, err
	}
	f := &refit{view: v, sh: sh}
	for _, c := range columns {
		if stays.column(c.name) == nil {
			f.added = append(f.added, c)
		}
	}
	for _, c := range sh.columns {
		switch {
		case old(c):
			f.gone = append(f.gone, c.name)
			f.parts = append(f.parts, "DROP COLUMN "+c.quoted)
		case !c.optional && !manages(v, c.name):
			return nil, nil // somebody else's: nothing can be inserted
		}
	}
	f.rekey(columns)
	return f, nil
}

// manages reports whether a view fills a column.
func manages(v *replicator.View, column string) bool {
	settings := settingsOf(v)
	is := func(f replicator.Field) bool { return strings.EqualFold(f.Name, column) }
	return slices.ContainsFunc(v.Fields, is) || slices.ContainsFunc(settings.KeyFrom, is) ||
		settings.VersionColumn != "" && strings.EqualFold(settings.VersionColumn, column)
}

// rekey replaces the primary key if it doesn't fit, drops indexes that lose a column, and adds missing ones. columns
// are the view's.
func (f *refit) rekey(columns []*declared) {
	var stay []*index
	var primary *index
	for i := range f.sh.indexes {
		x := &f.sh.indexes[i]
		loses := slices.ContainsFunc(x.parts, func(p part) bool { return slices.Contains(f.gone, p.column) })
		switch {
		case x.name == "PRIMARY" && (loses || !f.identifies(x, columns)):
			f.parts = append(f.parts, "DROP PRIMARY KEY")
			f.loosen(x, columns)
			continue
		case loses:
			f.parts = append(f.parts, "DROP INDEX "+sqlname.Quote(x.name))
			continue
		case x.name == "PRIMARY":
			primary = x
		}
		stay = append(stay, x)
	}
	if f.view.Kind == "index" {
		f.addIndexKeys(columns, primary, stay)
		return
	}
	names := namesOf(columns, f.oneRowFor())
	if slices.ContainsFunc(stay, func(x *index) bool { return x.exactly(names) }) {
		return
	}
	key := "ADD PRIMARY KEY ("
	if primary != nil {
		key = "ADD UNIQUE KEY ("
	}
	f.parts = append(f.parts, key+strings.Join(quotedNames(names), ", ")+")")
}

// oneRowFor is the role that identifies the rows of a row view or a counter.
func (f *refit) oneRowFor() role {
	if f.view.Kind == "counter" {
		return ofGroup
	}
	return ofKey
}

// identifies reports whether a primary key may stay: it distinguishes all rows of the view, and allows no duplicates.
func (f *refit) identifies(x *index, columns []*declared) bool {
	if autoOnly(x, f.sh, f.view) {
		return true
	}
	if f.view.Kind == "index" {
		return x.whole(slices.Concat(namesOf(columns, ofIndex), namesOf(columns, ofKey)))
	}
	names := namesOf(columns, f.oneRowFor())
	exactly := func(x index) bool { return x.exactly(names) }
	return x.exactly(names) || x.whole(names) && slices.ContainsFunc(f.sh.indexes, exactly)
}

// loosen makes columns nullable that leave the primary key and may now be missing.
func (f *refit) loosen(primary *index, columns []*declared) {
	for _, p := range primary.parts {
		i := slices.IndexFunc(columns, func(c *declared) bool { return strings.EqualFold(c.name, p.column) })
		if i >= 0 && columns[i].role == ofRow && !slices.Contains(f.gone, p.column) {
			f.parts = append(f.parts, "MODIFY COLUMN "+columns[i].line())
		}
	}
}

// addIndexKeys adds the missing keys of an index's table.
func (f *refit) addIndexKeys(columns []*declared, primary *index, stay []*index) {
	keys := namesOf(columns, ofKey)
	lines := indexKeys(columns, quotedNames(keys))
	byKey := lines[len(lines)-1]
	switch lines = lines[:len(lines)-1]; {
	case primary == nil: // as in a new table
	case autoOnly(primary, f.sh, f.view) && len(f.added)+len(f.gone) > 0: // an index of the earlier columns found the values
		lines = []string{strings.Replace(lines[len(lines)-1], "PRIMARY KEY", "KEY", 1)}
	default:
		lines = nil
	}
	begins := func(x *index) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, x.parts[0].column) })
	}
	if !slices.ContainsFunc(stay, begins) {
		lines = append(lines, byKey)
	}
	for _, line := range lines {
		f.parts = append(f.parts, "ADD "+strings.TrimSpace(line))
	}
}

// namesOf are the names of the columns of a role.
func namesOf(columns []*declared, r role) (names []string) {
	for _, c := range columns {
		if c.role == r {
			names = append(names, c.name)
		}
	}
	return names
}

func quotedNames(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = sqlname.Quote(name)
	}
	return all
}

// extends reports whether the table only gets nullable columns.
func (f *refit) extends() bool {
	return len(f.parts) == 0 && !slices.ContainsFunc(f.added, func(c *declared) bool { return c.role != ofRow })
}

// statement is the ALTER TABLE. Texts in added columns are compared as in a new table.
func (f *refit) statement(ctx context.Context, s *Sink) (string, error) {
	set, collation, err := s.byBytes(ctx, "utf8mb4", true)
	if err != nil {
		return "", err
	}
	parts := slices.Clone(f.parts)
	for _, c := range f.added {
		parts = append(parts, "ADD COLUMN "+c.line())
	}
	if len(f.added) > 0 && f.sh.collation != collation { // naming its own collation makes MySQL copy the table
		parts = append(parts, "DEFAULT CHARACTER SET "+set+" COLLATE "+collation)
	}
	return "ALTER TABLE " + f.sh.quoted() + " " + strings.Join(parts, ", "), nil
}

// alter alters the table, unless another process already has.
func (f *refit) alter(ctx context.Context, s *Sink) error {
	statement, err := f.statement(ctx, s)
	if err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		if sh, again := s.readShape(ctx, settingsOf(f.view).Table); again == nil && sh != nil {
			if s.fits(f.view, sh) {
				return nil
			}
		}
		return f.refused(ctx, s, err, statement)
	}
	s.log.Info("altered a table for the view's new definition", "sink", s.name, "view", shadowed(f.view).Name,
		"table", f.sh.name(), "statement", statement)
	return nil
}

// refused explains why the table can't be altered. Usually the operator must act.
func (f *refit) refused(ctx context.Context, s *Sink, err error, statement string) error {
	switch {
	case is(err, 1142, 1044): // for a shadow, the right has been tested
		return replicator.Fatal(fmt.Errorf("%w: %s", classify(err, statement), s.grant(ctx, s.database, "ALTER")))
	case ofTable(err) && !is(err, errLockWait):
		return replicator.Fatal(classify(err, statement))
	}
	return classify(err, statement)
}

// refitLive extends the live table of a view that is filled again in place because its definition changed.
func (s *Sink) refitLive(ctx context.Context, v *replicator.View, from *origins) error {
	changed, err := s.redefined(ctx, v)
	if err != nil || !changed {
		return err
	}
	sh, err := s.readShape(ctx, settingsOf(v).Table)
	if err != nil || sh == nil {
		return err
	}
	f, err := s.extending(ctx, v, sh, from)
	if err != nil || f == nil {
		return err
	}
	return f.alter(ctx, s)
}

// rebuilt is the ALTER statement of a rebuild of the view's table, in place or beside it; "" if none is needed, or if
// it would be refused.
func (s *Sink) rebuilt(ctx context.Context, v *replicator.View, sh *shape, from *origins) (string, error) {
	changed, err := s.redefined(ctx, v)
	if err != nil || !changed {
		return "", err
	}
	find := s.refitting
	if why, err := s.whyInPlace(ctx, v); err != nil {
		return "", err
	} else if why != "" {
		find = s.extending
	}
	f, err := find(ctx, v, sh, from)
	if err != nil || f == nil {
		return "", err
	}
	return f.statement(ctx, s)
}

// whyInPlace says why a rebuild of the view is in place; "" if it is not.
func (s *Sink) whyInPlace(ctx context.Context, v *replicator.View) (string, error) {
	switch {
	case s.inPlace:
		return "several sources, or partitions, fill a part of it each", nil
	case s.shard != "":
		return "it is kept in several databases", nil
	}
	return s.Foreign(ctx, v)
}

// madeAnew returns the columns of a table that a rebuild will recreate, and those that it leaves because it works in
// place, with the reason.
func (s *Sink) madeAnew(ctx context.Context, v *replicator.View, sh *shape) (gone, left []string, why string, err error) {
	old := outdated(v, sh)
	for _, c := range sh.columns {
		if old(c) {
			gone = append(gone, c.name)
		}
	}
	if len(gone) == 0 {
		return nil, nil, "", nil
	}
	if why, err = s.whyInPlace(ctx, v); why != "" {
		gone, left = nil, gone
	}
	return gone, left, why, err
}

// unaltered explains, after a problem of a table that the program would alter, why it doesn't.
func (s *Sink) unaltered(ctx context.Context, v *replicator.View) string {
	if !settingsOf(v).Create || v.Shadows != "" {
		return ""
	}
	why, err := s.whyInPlace(ctx, v)
	if err != nil || why == "" {
		return ""
	}
	return "; a rebuild beside the table would make it fit, but it is rebuilt in place: " + why
}

// redefined reports whether the view is registered by another definition.
func (s *Sink) redefined(ctx context.Context, v *replicator.View) (bool, error) {
	known, err := texts(ctx, s.db, "SELECT fingerprint FROM "+viewsTable+" WHERE name = ?", v.Name)
	other := func(fingerprint string) bool { return !replicator.SameDefinition(fingerprint, v.Fingerprint) }
	return slices.ContainsFunc(known, other), ofViews(err)
}

// missing is the ALTER TABLE that adds a table's missing columns, and drops former columns of the program's that have
// no default. It is phrased to follow the problem. It is "" if there are no such columns, or if the source doesn't tell
// a column's type.
func (s *Sink) missing(ctx context.Context, v *replicator.View, sh *shape, from *origins) string {
	columns, err := s.declare(ctx, v, from, sh)
	if err != nil {
		return ""
	}
	var parts []string
	for _, c := range sh.columns {
		if c.isOurs() && !c.optional && !manages(v, c.name) {
			parts = append(parts, "DROP COLUMN "+c.quoted)
		}
	}
	for _, c := range columns {
		if sh.column(c.name) == nil {
			parts = append(parts, "ADD COLUMN "+c.line())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": ALTER TABLE " + sh.quoted() + " " + strings.Join(parts, ", ")
}
