package canal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/sqlname"
)

// referring is a join (replicator.Lookup) that finds rows of a watched table for rows of another table.
type referring struct {
	table  string   // the other table
	lookup string   // the join's ID
	on     []string // the columns of the watched table that the join compares
}

// linkLookups records for each joined table the lookups that find its rows.
func (t tables) linkLookups() {
	for name := range t.byName {
		own := t.first(name)
		for _, l := range own.Lookups {
			joined := t.first(l.Table)
			if joined == nil {
				continue // an earlier check reported that the joined table can't be read
			}
			r := referring{table: own.Name, lookup: l.ID}
			for _, on := range l.On {
				r.on = append(r.on, on.Column)
			}
			if !slices.ContainsFunc(joined.referring, func(o referring) bool {
				return o.table == r.table && o.lookup == r.lookup
			}) {
				joined.referring = append(joined.referring, r)
			}
		}
	}
}

// unjoinable returns an error for each lookup that compares columns of different types or collations. Values that one
// column treats as equal may differ in the other, so the lookup would find only some rows. The error concerns only the
// views with that join.
func (t tables) unjoinable() (refused []error) {
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		own := t.first(name)
		for _, l := range own.Lookups {
			if err := t.sameSides(own, &l); err != nil {
				refused = append(refused, own.ofJoiners(l.ID, err))
			}
		}
	}
	return refused
}

func (t tables) sameSides(own *watched, l *replicator.Lookup) error {
	joined := t.first(l.Table)
	for _, on := range l.On {
		from := own
		if i := slices.IndexFunc(own.Lookups, func(o replicator.Lookup) bool { return o.ID == on.From }); i >= 0 {
			from = t.first(own.Lookups[i].Table)
		}
		if joined == nil || from == nil {
			continue // an earlier check reported that one of the tables can't be read
		}
		if err := sameColumns(joined, on.Column, from, on.Path); err != nil {
			return err
		}
	}
	return nil
}

func sameColumns(joined *watched, column string, from *watched, path string) error {
	a, err := joined.joinedBy(column)
	if err != nil {
		return err
	}
	b, err := from.joinedBy(path)
	if err != nil {
		return err
	}
	switch {
	case !canBeKey(a.kind) || !canBeKey(b.kind):
		return fmt.Errorf("rows of %s are joined by %s.%s, which is %s, and %s.%s, which is %s: these values can't be "+
			"looked up exactly. Join by a column of integers, text or bytes", joined.Name, joined.Name, column,
			a.shown(),
			from.Name, path, b.shown())
	case !a.sameKeys(&b.declaredColumn):
		return fmt.Errorf("rows of %s are joined by %s.%s, which is %s, and %s.%s, which is %s. Give both columns "+
			"the same type and collation", joined.Name, joined.Name, column, a.shown(), from.Name, path, b.shown())
	}
	return nil
}

func canBeKey(k binlog.Kind) bool {
	return k != binlog.KindFloat && k != binlog.KindDouble && k != binlog.KindJSON
}

// refer tells the handler that a joined row changed. It passes the values that the join compares, from before and after
// the change.
func (s *stream) refer(ctx context.Context, p *plan, place scale, images []*image, offs []int) error {
	for i := range p.refers {
		r := &p.refers[i]
		told := replicator.Key("")
		for n, img := range images {
			if column := r.lacks(img); column >= 0 {
				return s.unreferred(p, r, column)
			}
			key, err := p.referenceOf(r, img)
			if err != nil {
				return p.t.fatal(fmt.Errorf("table %s: a row has a value by which it can't be joined with rows of %s: "+
					"%w. %s", p.t.Name, r.table, err, wayOut))
			}
			if key == "" || key == told {
				continue
			}
			told = key
			ref := replicator.Reference{Table: r.table, Lookup: r.lookup, Values: key}
			if s.tx.xa {
				s.holdReference(p.t.Name, ref)
				continue
			}
			address, _ := place.row(offs[n])
			if err := s.tellReference(ctx, ref, s.order(address)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) tellReference(ctx context.Context, ref replicator.Reference, order int64) error {
	ref.Order, ref.Time = order, s.tx.at
	if err := s.handler.Refer(ctx, &ref); err != nil {
		return handlerError{err}
	}
	return nil
}

// reference is a join that finds rows of a watched table (referring), with the indexes of the compared columns in the
// table's row images.
type reference struct {
	referring
	at []int
}

// lacks returns the index of a compared column that the image lacks; -1 if it has all.
func (r *reference) lacks(img *image) int {
	for _, i := range r.at {
		if !img.has(i) {
			return i
		}
	}
	return -1
}

// unreferred reports that a joined row changed, and that the event does not say which rows it is joined to. The views
// with the join are then compared with the source.
func (s *stream) unreferred(p *plan, r *reference, column int) error {
	name := p.columns[column].Name
	return s.unlogged(p.t.Name, p.t.limitToViews(name, fmt.Errorf("table %s: the binlog holds rows without column "+
		"%s, by which rows of %s are joined. Set binlog_row_image=FULL on the source and in its "+
		"sessions: %w", p.t.Name, name, r.table,
		replicator.ErrUnlogged)))
}

// referenceOf returns the values by which other rows are joined with a row; "" if a value is NULL, which joins no rows.
func (p *plan) referenceOf(r *reference, img *image) (replicator.Key, error) {
	values := make([]any, len(r.at))
	for n, i := range r.at {
		raw := img.values[i]
		if raw == nil {
			return "", nil
		}
		var err error
		if values[n], err = p.columns[i].Value(raw); err != nil {
			return "", fmt.Errorf("column %s: %w", p.columns[i].Name, err)
		}
	}
	return replicator.MakeKey(values...)
}

func (p *plan) assignReferences() error {
	p.refers = nil
	for _, r := range p.t.referring {
		found := reference{referring: r}
		for _, name := range r.on {
			i := slices.IndexFunc(p.columns, func(c binlog.Column) bool { return strings.EqualFold(c.Name, name) })
			if i < 0 {
				return unreadable{why: fmt.Sprintf("there is no column %s, by which rows of %s are joined; the table was "+
					"altered, or the configuration is wrong. Restore the column or correct the configuration", name, r.table)}
			}
			p.wanted[i] = true
			found.at = append(found.at, i)
		}
		p.refers = append(p.refers, found)
	}
	return nil
}

// Referring returns the cells of the rows that join the changed rows `refs`, a page at a time.
func (r *Reader) Referring(ctx context.Context, refs []replicator.Reference, after string, limit int) (
	cells []replicator.Cell, next string, err error,
) {
	x, err := r.selection(refs[0].Table)
	if err != nil {
		return nil, "", err
	}
	condition, args, err := r.referringCondition(x.t, refs)
	if err != nil || condition == "" {
		return nil, "", err
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	// The query must also find a row that was inserted just now: it may have been joined with a changed row's old
	// values. So the fence makes all rows visible that the binlog has.
	f, err := r.present(ctx, conn)
	if err != nil {
		return nil, "", err
	}
	x = x.keysOnly()
	err = untilFree(ctx, f.atMost(waitingRows, limit), func(n int) error {
		cells, next, err = x.referringPage(ctx, conn, f, condition, args, after, n)
		return err
	})
	return cells, next, classify(err)
}

func (x *selection) referringPage(ctx context.Context, db querier, f *fence, condition string, args []any, after string,
	limit int) (cells []replicator.Cell, next string, err error) {
	query, args, err := x.page(after, []string{condition}, args, limit)
	if err != nil {
		return nil, "", err
	}
	read := 0
	err = x.read(ctx, db, query+f.lock, args, func(_ int, values [][]byte) error {
		row, err := x.row(ctx, values, 0, time.Time{})
		if err != nil {
			return err
		}
		read, next = read+1, x.encodeOffset(values)
		if len(cells) == 0 || cells[len(cells)-1] != row.Cell {
			cells = append(cells, row.Cell)
		}
		return nil
	})
	if read < limit {
		next = ""
	}
	return cells, next, err
}

// referringCondition returns the SQL condition for the rows of the table `own` that are joined with the rows that
// `refs` identify; "" if `own` no longer has the lookup. If the lookup compares values from several tables, the
// condition follows only the first of these tables, so it may select too many rows.
func (r *Reader) referringCondition(own *watched, refs []replicator.Reference) (
	condition string, args []any, err error,
) {
	byID := map[string]*replicator.Lookup{}
	for i := range own.Lookups {
		byID[own.Lookups[i].ID] = &own.Lookups[i]
	}
	l := byID[refs[0].Lookup]
	if l == nil {
		return "", nil, nil
	}
	level := l.On[0].From
	at := own
	if level != "" {
		at = r.tables.first(byID[level].Table)
	}
	var alternatives []string
	for i := range refs {
		one, values, err := at.referredBy(l, level, refs[i].Values)
		if err != nil {
			return "", nil, err
		}
		alternatives, args = append(alternatives, one), append(args, values...)
	}
	condition = "(" + strings.Join(alternatives, " OR ") + ")"
	for level != "" {
		up := byID[level]
		var columns, paths []string
		for _, on := range up.On {
			if on.From == up.On[0].From {
				columns, paths = append(columns, sqlname.Quote(on.Column)), append(paths, sqlname.Quote(on.Path))
			}
		}
		condition = fmt.Sprintf("(%s) IN (SELECT %s FROM %s.%s WHERE %s)", strings.Join(paths, ", "),
			strings.Join(columns, ", "), sqlname.Quote(at.Database), sqlname.Quote(at.Table.Table), condition)
		if level = up.On[0].From; level != "" {
			at = r.tables.first(byID[level].Table)
		}
	}
	return condition, args, nil
}

// referredBy returns the SQL condition for the rows of t that the lookup l joins with one changed row. key has that
// row's values of the columns that l compares. The condition ignores values that l compares with other tables than t.
// from is the ID of the lookup that reads t; "" if t is the table of the view's own rows.
func (t *watched) referredBy(l *replicator.Lookup, from string, key replicator.Key) (
	condition string, args []any, err error,
) {
	values, err := key.Values()
	if err == nil && len(values) != len(l.On) {
		err = fmt.Errorf("table %s: a joined row has %d values for %d columns", t.Name, len(values), len(l.On))
	}
	if err != nil {
		return "", nil, err
	}
	var parts []string
	for i, on := range l.On {
		if on.From != from {
			continue
		}
		c, err := t.joinedBy(on.Path)
		if err != nil {
			return "", nil, err
		}
		placeholder, arg := c.argument(values[i])
		parts, args = append(parts, sqlname.Quote(on.Path)+" = "+placeholder), append(args, arg)
	}
	return strings.Join(parts, " AND "), args, nil
}
