package canal

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/remedy"
)

// pattern is a configured table whose name matches several tables of the source. Each matching table, called a member,
// is watched separately. But cells, errors and scan offsets carry the configured name.
//
// A Reader's members are the tables that matched when it was opened. If the matching tables change, reading ends with
// an error and begins again at the same position, with the new members.
//
// A position lists its members (layout.Members). A new member is read from its CREATE TABLE on. If the log lacks that
// statement, or if a listed member is gone, the pattern is reported with ErrUnlogged.
type pattern struct {
	replicator.Table
	fold    func(string) string
	members []*watched // the tables that are read, in the order of their IDs (memberID)

	mu   sync.Mutex
	left map[string]error // by table ID (memberID): why a table that matches the name is not read

	// A saved position lists the tables that were members when it was saved. Only the stream uses these fields.
	unsettled bool                 // that list and `members` differ, which is reported once reading has reached `end`
	named     map[string][2]string // by table ID: tables that statements name, and that match but are not members
	gone      bool                 // the start position lists a table that no longer exists
	end       int64                // where the log ended when the reader was opened
	now       *layout              // lists the members
	// by table ID: members that the start position doesn't list. Their rows are skipped up to their CREATE TABLE, or
	// up to `end`.
	pending map[string]bool
}

// constant is a column that a pattern adds to its tables: $database or $table.
type constant struct {
	declaredColumn
	value string
}

// constantsOf returns $database and $table for a pattern's table; nil for other tables.
func constantsOf(t *replicator.Table) (all []constant) {
	if !t.Pattern {
		return nil
	}
	for _, c := range [][2]string{{"database", t.Database}, {"table", t.Table}} {
		x := constant{value: c[1], declaredColumn: declaredColumn{
			Declared: binlog.Declared{Name: c[0], Charset: "utf8mb4"}, dataType: "char", fullType: "char(64)",
			collation: "utf8mb4_bin", literal: "CONVERT(X'" + hex.EncodeToString([]byte(c[1])) + "' USING utf8mb4)"}}
		all = append(all, x)
	}
	return all
}

func (s *schema) constant(name string) int {
	return slices.IndexFunc(s.constants, func(c constant) bool { return strings.EqualFold(c.Name, name) })
}

// constantPlace converts the index of a constant ($database, $table) to the number that `roles` has for it, and back.
// Row images lack these columns, so the number is not an index but below -1.
func constantPlace(i int) int { return -2 - i }

func (s *schema) names() []string {
	names := make([]string, len(s.columns))
	for i, c := range s.columns {
		names[i] = c.Name
	}
	return s.withConstants(names)
}

func (s *schema) withConstants(names []string) []string {
	names = slices.Clip(names)
	for _, c := range s.constants {
		if !containsFold(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// memberID returns the ID of a table of a pattern. Messages show it, too.
func memberID(name, database, table string) string { return name + " (" + database + "." + table + ")" }

// nameOf returns the configured name of the table with an ID.
func nameOf(id string) string {
	name, _, _ := strings.Cut(id, " (")
	return name
}

func (p *pattern) matches(database, table string) bool {
	folded := replicator.Table{Database: p.fold(p.Database), Table: p.fold(p.Table.Table)}
	return folded.Matches(p.fold(database), p.fold(table))
}

// addNamed records that a statement mentions a table that matches the pattern and is not one of its members. It returns
// the table's ID.
func (p *pattern) addNamed(database, table string) string {
	id := memberID(p.Name, database, table)
	p.named[id] = [2]string{database, table}
	return id
}

func (p *pattern) inDatabase(database string) bool {
	in := replicator.Table{Database: p.fold(p.Database), Table: "*"}
	return in.Matches(p.fold(database), "")
}

// like converts a pattern of the configuration to the pattern of LIKE ... ESCAPE '!'.
var like = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_", "*", "%", "?", "_")

const matching = " FROM information_schema.tables WHERE table_schema LIKE ? ESCAPE '!' AND table_name LIKE ? ESCAPE '!' " +
	"AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') " +
	"AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"

func (p *pattern) list(ctx context.Context, db querier) (all []replicator.Table, err error) {
	rows, err := db.QueryContext(ctx, "SELECT table_schema, table_name"+matching, like.Replace(p.Database),
		like.Replace(p.Table.Table))
	if err != nil {
		return nil, classify(err)
	}
	err = eachRow(rows, func() error {
		t := p.Table
		if err := rows.Scan(&t.Database, &t.Table); err != nil {
			return err
		}
		if p.matches(t.Database, t.Table) {
			all = append(all, t)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b replicator.Table) int { return strings.Compare(idOf(&a), idOf(&b)) })
	return all, classify(err)
}

func idOf(t *replicator.Table) string { return memberID(t.Name, t.Database, t.Table) }

func (p *pattern) rows(ctx context.Context, db querier) (n int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT COALESCE(SUM(table_rows), 0)"+matching, like.Replace(p.Database),
		like.Replace(p.Table.Table)).Scan(&n)
	return n, err
}

func newPattern(t replicator.Table, srv server) *pattern {
	p := &pattern{Table: t, fold: func(s string) string { return s }, left: map[string]error{},
		named: map[string][2]string{}}
	if srv.fold {
		p.fold = strings.ToLower
	}
	return p
}

// loadPattern reads the schemas of the matching tables. It leaves out tables that can't be read, and tables whose key
// types differ from those of most tables. If no table is left, the error is Fatal.
func (s *Source) loadPattern(ctx context.Context, db *sql.Conn, srv server, t replicator.Table) (*pattern, error) {
	p := newPattern(t, srv)
	listed, err := p.list(ctx, db)
	if err != nil {
		return nil, err
	}
	read, err := readSchemas(ctx, db, srv, listed)
	if err != nil {
		return nil, classify(err)
	}
	alike := map[string][]*watched{}
	most := ""
	for _, table := range listed {
		w, reason, err := loadMember(ctx, db, srv, table, read[idOf(&table)])
		if err != nil {
			return nil, err
		}
		if reason != nil {
			p.left[idOf(&table)] = reason
			continue
		}
		is := w.schema.Load().identity(&w.Table)
		if alike[is] = append(alike[is], w); most == "" {
			most = is
		}
	}
	for is, some := range alike {
		if n := len(some) - len(alike[most]); n > 0 || n == 0 && some[0].id < alike[most][0].id {
			most = is
		}
	}
	p.members = alike[most]
	delete(alike, most)
	for _, some := range alike {
		for _, w := range some {
			p.left[w.id] = fmt.Errorf("the type of its key or version differs from that of most matching tables (%s)",
				p.members[0].id)
		}
	}
	if len(p.members) > 0 {
		return p, nil
	}
	err = fmt.Errorf("table %s: no table of the source matches %s.%s, or the account lacks SELECT", t.Name, t.Database, t.Table)
	for id, reason := range p.left {
		err = fmt.Errorf("table %s: none of the tables that match %s.%s can be read. For example, %s: %w",
			t.Name, t.Database, t.Table,
			id, reason)
		break
	}
	return p, replicator.OfTable(t.Name, replicator.Fatal(err))
}

// loadMember returns a matching table with its schema. If `read` has no schema, loadMember asks the server for it.
// `reason` says why the table can't be a member.
func loadMember(
	ctx context.Context, db *sql.Conn, srv server, t replicator.Table, read shapeAt,
) (w *watched, reason, err error) {
	w = &watched{Table: t, id: idOf(&t)}
	shape, end := read.shape, read.end
	if shape == nil {
		shape, end, err = readSchemaAt(ctx, db, srv, &w.Table)
	}
	if err = classify(err); replicator.IsFatal(err) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	w.schema.Store(shape)
	w.end = end
	if reason := w.check(srv.flavor); reason != nil {
		return nil, reason, nil
	}
	x, err := newSelection(w)
	switch {
	case err != nil:
		return nil, err, nil
	case !x.ordered():
		return nil, fmt.Errorf("%s.%s has no key by which a scan could page through its rows. Give it a primary key",
			t.Database, t.Table), nil
	case t.Shared && shape.mixed:
		return nil, fmt.Errorf("different tables may spell the same key differently. Put $table into the key, or give "+
			"the key's columns of %s.%s %s", t.Database, t.Table, remedy.ExactCollation), nil
	}
	return w, nil, nil
}

// membersChanged returns an error after which reading begins again with the tables that match then. The operator need
// not act.
func membersChanged(name string, why error) error {
	return replicator.OfTable(name, fmt.Errorf("table %s: %w: %s", name, replicator.ErrOtherTables, why.Error()))
}

func (t tables) pattern(name string) *pattern {
	for _, p := range t.patterns {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// first returns the table with a configured name, or the first table of a pattern; nil if there is none.
func (t tables) first(name string) *watched {
	for _, w := range t.byName[name] {
		return w
	}
	return nil
}

func (t *tables) add(w *watched) error {
	database, name := t.fold(w.Database), t.fold(w.Table.Table)
	if t.byPlace[database] == nil {
		t.byPlace[database] = map[string]*watched{}
	}
	if other := t.byPlace[database][name]; other != nil {
		return replicator.OfTable(w.Name, replicator.Fatal(fmt.Errorf("tables %s and %s both match %s.%s. Change "+
			"one of the patterns", other.Name, w.Name, w.Database, w.Table.Table)))
	}
	t.byPlace[database][name] = w
	t.byName[w.Name] = append(t.byName[w.Name], w)
	t.byID[w.id] = w
	return nil
}

// sameMembers fails if the matching tables have changed since the reader was opened.
func (r *Reader) sameMembers(ctx context.Context, db querier, name string) error {
	p := r.tables.pattern(name)
	if p == nil {
		return nil
	}
	fresh, err := p.compare(ctx, db)
	if err == nil && len(fresh) > 0 {
		err = membersChanged(name, fmt.Errorf("%s.%s is new", fresh[0].Database, fresh[0].Table))
	}
	return err
}

// compare returns the matching tables that are new: they are neither members nor in p.left, which has the tables that
// can't be members. It fails if a member is gone.
func (p *pattern) compare(ctx context.Context, db querier) (fresh []replicator.Table, err error) {
	listed, err := p.list(ctx, db)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]bool{}
	for _, t := range listed {
		id := idOf(&t)
		found[id] = true
		if p.left[id] == nil && !slices.ContainsFunc(p.members, func(w *watched) bool { return w.id == id }) {
			fresh = append(fresh, t)
		}
	}
	for _, w := range p.members {
		if !found[w.id] {
			return nil, membersChanged(p.Name, fmt.Errorf("%s.%s is gone", w.Database, w.Table.Table))
		}
	}
	return fresh, nil
}

// regroup asks the server for new tables that match a pattern, after a statement that names such a table. If one can
// become a member, it returns an error after which reading begins again with the table.
func (r *Reader) regroup(ctx context.Context, id string) error {
	p := r.tables.pattern(nameOf(id))
	if p == nil {
		return nil
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.mu.Lock()
	for left := range p.left { // the statement may have removed the reason not to read this table
		if p.fold(left) == p.fold(id) {
			delete(p.left, left)
		}
	}
	p.mu.Unlock()
	fresh, err := p.compare(ctx, conn)
	if err != nil {
		return err
	}
	// A server may log a statement before it lists the new table. So load the table anyway: reading its schema waits until
	// the server lists it.
	if at, is := p.named[id]; is && !slices.ContainsFunc(fresh, func(t replicator.Table) bool { return idOf(&t) == id }) {
		t := p.Table
		t.Database, t.Table = at[0], at[1]
		fresh = append(fresh, t)
	}
	clear(p.named)
	for _, t := range fresh {
		w, reason, err := loadMember(ctx, conn, r.server, t, shapeAt{})
		if err != nil {
			return err
		}
		first := p.members[0]
		if reason == nil && w.schema.Load().identity(&w.Table) == first.schema.Load().identity(&first.Table) {
			return membersChanged(p.Name, fmt.Errorf("%s.%s is new", t.Database, t.Table))
		}
		if reason == nil {
			reason = fmt.Errorf("the type of its key or version differs from that of %s", first.id)
		}
		if errors.Is(reason, errNoTable) {
			continue
		}
		p.mu.Lock()
		p.left[idOf(&t)] = reason
		p.mu.Unlock()
		r.warnLeft(&t, reason)
	}
	return nil
}

func (r *Reader) warnLeft(t *replicator.Table, reason error) {
	r.source.cfg.Logger.Warn("a matching table can't be read, so its rows are left out",
		slog.String("source", r.source.cfg.Name),
		slog.String("table", t.Name), slog.String("name", t.Database+"."+t.Table), slog.Any("reason", reason))
}
