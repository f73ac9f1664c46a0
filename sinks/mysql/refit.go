package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// A table that was created for an earlier definition of its view (create = true) may be unable to hold the present one.
// A rebuild alters it in one of two ways:
//
//   - In a second table, the shadow, which is created LIKE the live one and later swapped in. It is altered in one
//     statement while it is empty.
//   - In place, if a swap would lose parts that don't belong to the view, or if no swap is possible (several shards).
//     Only nullable columns are added, because that harms no reader. The program refuses any other change and names
//     the necessary ALTER.
//
// A table is never altered if its view is registered with the current definition, because then its missing parts were
// removed by hand. The table of a view without create = true belongs to another program.

type refit struct {
	view    *replicator.View
	sh      *shape
	added   []*declared
	dropped []string
	parts   []string // clauses of the ALTER TABLE, besides those that add columns
}

// fits reports whether a table can hold its view, and has no columns that the program created for a different purpose.
func (s *Sink) fits(v *replicator.View, sh *shape) bool {
	_, problems := s.plan(v, sh)
	return sh.isView || len(problems) == 0 && !slices.ContainsFunc(sh.columns, outdated(v, sh))
}

// refitting finds the changes that the new table of a rebuild needs to hold its view; nil if it needs none.
func (s *Sink) refitting(ctx context.Context, v *replicator.View, sh *shape, from *origins) (*refit, error) {
	if s.fits(v, sh) {
		return nil, nil
	}
	return s.refitTo(ctx, v, sh, from, outdated(v, sh))
}

// extending finds the changes for a table that is filled in place: nullable columns to add. Columns that the program
// made for an earlier purpose stay.
func (s *Sink) extending(ctx context.Context, v *replicator.View, sh *shape, from *origins) (*refit, error) {
	if _, problems := s.plan(v, sh); len(problems) == 0 || sh.isView {
		return nil, nil
	}
	f, err := s.refitTo(ctx, v, sh, from, func(*column) bool { return false })
	if err != nil || f == nil || !f.extends() {
		return nil, err // nil without an error: `keep` reports later what the table lacks
	}
	return f, nil
}

// refitTo returns the changes that give a table the columns and keys of its view, or nil if no change makes it fit. It
// drops the columns for which old returns true, and adds them again if the view needs them.
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
			f.dropped = append(f.dropped, c.name)
			f.parts = append(f.parts, "DROP COLUMN "+c.quoted)
		case !c.optional && !manages(v, c.name):
			return nil, nil // another program's column has no default, so no row can be inserted
		}
	}
	f.rekey(columns)
	return f, nil
}

func manages(v *replicator.View, column string) bool {
	settings := settingsOf(v)
	is := func(f replicator.Field) bool { return strings.EqualFold(f.Name, column) }
	return slices.ContainsFunc(v.Fields, is) || slices.ContainsFunc(settings.KeyFrom, is) ||
		settings.VersionColumn != "" && strings.EqualFold(settings.VersionColumn, column)
}

// rekey replaces the primary key if it doesn't fit, drops indexes that lose a column, and adds missing indexes. columns
// are the columns that the view needs.
func (f *refit) rekey(columns []*declared) {
	var stay []*index
	var primary *index
	for i := range f.sh.indexes {
		x := &f.sh.indexes[i]
		loses := slices.ContainsFunc(x.parts, func(p part) bool { return slices.Contains(f.dropped, p.column) })
		switch {
		case x.name == "PRIMARY" && (loses || !f.identifies(x, columns)):
			f.parts = append(f.parts, x.dropClause())
			f.loosen(x, columns)
			continue
		case loses:
			f.parts = append(f.parts, x.dropClause())
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

// oneRowFor returns the role of the columns that identify a row: a counter's group columns, or a row view's key
// columns.
func (f *refit) oneRowFor() role {
	if f.view.Kind == "counter" {
		return ofGroup
	}
	return ofKey
}

// identifies reports whether the primary key `x` can stay: any two rows of the view must differ in its columns. For a
// row view or a counter, `x` must have exactly the columns that identify a row. It may have further columns if another
// unique key has exactly those that identify a row.
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

// loosen makes columns nullable if they leave the primary key and their values may now be missing.
func (f *refit) loosen(primary *index, columns []*declared) {
	for _, p := range primary.parts {
		i := slices.IndexFunc(columns, func(c *declared) bool { return strings.EqualFold(c.name, p.column) })
		if i >= 0 && columns[i].role == ofRow && !slices.Contains(f.dropped, p.column) {
			f.parts = append(f.parts, "MODIFY COLUMN "+columns[i].line())
		}
	}
}

func (f *refit) addIndexKeys(columns []*declared, primary *index, stay []*index) {
	keys := namesOf(columns, ofKey)
	lines := indexKeys(columns, quotedNames(keys))
	byKey := lines[len(lines)-1]
	switch lines = lines[:len(lines)-1]; {
	case primary == nil: // the table gets the same keys as a new table
	case autoOnly(primary, f.sh, f.view) && len(f.added)+len(f.dropped) > 0:
		// The primary key is an AUTO_INCREMENT number, so it stays. Entries are found by a plain key, which must have
		// the columns that the view has now.
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

// extends reports whether the change only adds nullable columns.
func (f *refit) extends() bool {
	return len(f.parts) == 0 && !slices.ContainsFunc(f.added, func(c *declared) bool { return c.role != ofRow })
}

// statement returns the ALTER TABLE. Added text columns get the collation that a new table would have.
func (f *refit) statement(ctx context.Context, s *Sink) (string, error) {
	set, collation, err := s.byBytes(ctx, "utf8mb4", true)
	if err != nil {
		return "", err
	}
	parts := slices.Clone(f.parts)
	for _, c := range f.added {
		parts = append(parts, "ADD COLUMN "+c.line())
	}
	if len(f.added) > 0 && f.sh.collation != collation { // naming the table's own collation makes MySQL copy the table
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

// refused classifies the server's refusal of an ALTER TABLE. Usually the operator must act.
func (f *refit) refused(ctx context.Context, s *Sink, err error, statement string) error {
	switch {
	case is(err, 1142, 1044):
		// The user lacks ALTER on the live table. For a shadow, createShadow has already tested this right.
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

// rebuilt returns the ALTER TABLE that a rebuild of the view would run; "" if none is needed, or if the program would
// refuse it.
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

// whyInPlace returns why a rebuild must fill the live table itself; "" if it can fill a second table (a shadow).
func (s *Sink) whyInPlace(ctx context.Context, v *replicator.View) (string, error) {
	switch {
	case s.inPlace:
		return "several sources, or partitions, each fill a part of it", nil
	case s.shard != "":
		return "it is kept in several databases", nil
	}
	return s.Foreign(ctx, v)
}

// madeAnew returns the columns that the program made for an earlier purpose: as `gone` if a rebuild drops or recreates
// them, as `left` if they stay. They stay if the view must be rebuilt in place, and `why` is the reason.
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

// unaltered explains why a rebuild doesn't alter the table to make it fit, as an addition to a message; "" if there is
// no such reason.
func (s *Sink) unaltered(ctx context.Context, v *replicator.View) string {
	if !settingsOf(v).Create || v.Shadows != "" {
		return ""
	}
	why, err := s.whyInPlace(ctx, v)
	if err != nil || why == "" {
		return ""
	}
	return "; a rebuild beside the table would make it fit, but the view is rebuilt in place: " + why
}

func (s *Sink) redefined(ctx context.Context, v *replicator.View) (bool, error) {
	known, err := texts(ctx, s.db, "SELECT fingerprint FROM "+viewsTable+" WHERE name = ?", v.Name)
	other := func(fingerprint string) bool { return !replicator.SameDefinition(fingerprint, v.Fingerprint) }
	return slices.ContainsFunc(known, other), ofViews(err)
}

// missing returns ": ALTER TABLE …", for messages. The statement adds columns that the view needs, and drops columns
// that the program once made and that now would need a value. It returns "" if there are none, or if a type can't be
// found out.
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
