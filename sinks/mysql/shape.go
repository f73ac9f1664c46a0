package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/sqlname"
)

type shape struct {
	database, table string
	engine          string
	collation       string
	isView          bool
	columns         []*column
	indexes         []index
	triggers        []trigger
	definition      string // the CREATE TABLE, without the AUTO_INCREMENT counter
}

type index struct {
	name   string
	unique bool
	parts  []part
}

// part is one column of an index. column is "" for an expression. prefix says that only the column's beginning is
// indexed.
type part struct {
	column string
	prefix bool
}

func (s *shape) name() string   { return s.database + "." + s.table }
func (s *shape) quoted() string { return sqlname.Quote(s.database) + "." + sqlname.Quote(s.table) }

func (s *shape) columnNames() (names []string) {
	for _, c := range s.columns {
		names = append(names, c.name)
	}
	return names
}

// column finds a column as MySQL does: without regard to case. It returns nil if the column or the table (s is nil)
// does not exist.
func (s *shape) column(name string) *column {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.columns, func(c *column) bool { return strings.EqualFold(c.name, name) })
	if i < 0 {
		return nil
	}
	return s.columns[i]
}

// whole reports whether the index holds all of the named columns, each in full.
func (x *index) whole(names []string) bool {
	for _, n := range names {
		if !slices.ContainsFunc(x.parts, func(p part) bool { return strings.EqualFold(p.column, n) && !p.prefix }) {
			return false
		}
	}
	return true
}

// exactly reports whether the index is unique on the named columns and no others.
func (x *index) exactly(names []string) bool {
	return x.unique && len(x.parts) == len(names) && x.whole(names)
}

// dropClause returns the clause of an ALTER TABLE that drops the index.
func (x *index) dropClause() string {
	if x.name == "PRIMARY" {
		return "DROP PRIMARY KEY"
	}
	return "DROP INDEX " + sqlname.Quote(x.name)
}

// withoutUnique returns, for messages, the ALTER TABLE that replaces a unique key by a key that is not unique. If the
// key has an expression or only the beginning of a column, "…" stands for the new key's columns.
func (x *index) withoutUnique(table string) string {
	var names []string
	for _, p := range x.parts {
		if p.column == "" || p.prefix {
			return "ALTER TABLE " + table + " " + x.dropClause() + ", ADD KEY (…)"
		}
		names = append(names, p.column)
	}
	return "ALTER TABLE " + table + " " + x.dropClause() + ", ADD KEY (" + strings.Join(quotedNames(names), ", ") + ")"
}

// readShape reads the definition of a table; nil if the table doesn't exist or the user may not see it. It first
// selects from the table, to wait for an ALTER or a swap in progress: meanwhile MariaDB's information_schema may omit
// the table (warning 1684).
func (s *Sink) readShape(ctx context.Context, name string) (*shape, error) {
	database, table := split(name, s.database)
	sh := &shape{database: database, table: table}
	doing := "reading the definition of table " + sh.name()
	var engine, collation sql.NullString
	var kind string
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, classify(err, doing)
	}
	defer tx.Rollback()
	var none int
	var my *mysql.MySQLError
	err = tx.QueryRowContext(ctx, "SELECT 1 FROM "+sh.quoted()+" LIMIT 0").Scan(&none)
	switch {
	case errors.As(err, &my):
		// The table doesn't exist, or it is an SQL view that can't be read. The query below tells which.
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return nil, classify(err, doing)
	}
	row := tx.QueryRowContext(ctx, "SELECT ENGINE, TABLE_COLLATION, TABLE_TYPE FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", database, table)
	switch err := row.Scan(&engine, &collation, &kind); {
	case err == sql.ErrNoRows:
		return nil, nil
	case err != nil:
		return nil, classify(err, doing)
	}
	sh.engine, sh.collation, sh.isView = engine.String, collation.String, kind != "BASE TABLE"
	if err := s.readColumns(ctx, tx, sh); err != nil {
		return nil, classify(err, doing)
	}
	if err := s.readJSONChecks(ctx, tx, sh); err != nil {
		return nil, classify(err, doing)
	}
	if err := s.readIndexes(ctx, tx, sh); err != nil {
		return nil, classify(err, doing)
	}
	if err := s.readTriggers(ctx, tx, sh); err != nil {
		return nil, classify(err, doing)
	}
	if sh.isView {
		return sh, nil
	}
	sh.definition, err = definition(ctx, tx, sh.quoted())
	return sh, classify(err, doing)
}

func (s *Sink) readColumns(ctx context.Context, tx *sql.Tx, sh *shape) error {
	return eachRow(ctx, tx, func(rows *sql.Rows) error {
		c := &column{}
		var hasDefault bool
		var extra string
		err := rows.Scan(&c.name, &c.typ, &c.declared, &c.nullable, &c.chars, &c.bytes, &c.precision, &c.scale, &c.fraction,
			&c.charset, &c.collation, &hasDefault, &extra, &c.comment)
		extra = strings.ToLower(extra)
		byDefault := strings.Contains(extra, "default_generated")
		c.quoted = sqlname.Quote(c.name)
		c.typ = strings.ToLower(c.typ)
		c.unsigned = strings.Contains(strings.ToLower(c.declared), "unsigned")
		c.autoIncrement = strings.Contains(extra, "auto_increment")
		c.updates = strings.Contains(extra, "on update")
		c.generated = strings.Contains(extra, "generated") && !byDefault || strings.Contains(extra, "virtual") ||
			strings.Contains(extra, "persistent")
		c.optional = c.nullable || hasDefault || c.autoIncrement || c.generated || byDefault
		if c.typ == "enum" || c.typ == "set" {
			c.members = members(c.declared)
		}
		sh.columns = append(sh.columns, c)
		return err
	}, `SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE = 'YES', COALESCE(CHARACTER_MAXIMUM_LENGTH, 0),
		COALESCE(CHARACTER_OCTET_LENGTH, 0), COALESCE(NUMERIC_PRECISION, 0), COALESCE(NUMERIC_SCALE, 0),
		COALESCE(DATETIME_PRECISION, 0), COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),
		COLUMN_DEFAULT IS NOT NULL, EXTRA, COLUMN_COMMENT
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`,
		sh.database, sh.table)
}

// readJSONChecks finds MariaDB's JSON columns: LONGTEXT with a CHECK that the server adds.
func (s *Sink) readJSONChecks(ctx context.Context, tx *sql.Tx, sh *shape) error {
	if !slices.ContainsFunc(sh.columns, func(c *column) bool { return c.typ == "longtext" }) {
		return nil
	}
	srv, err := s.ask(ctx)
	if err != nil || !srv.isMariaDB() {
		return err
	}
	clauses, err := texts(ctx, tx, "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS "+
		"WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?", sh.database, sh.table)
	for _, c := range sh.columns {
		isJSON := func(clause string) bool { return strings.EqualFold(clause, "json_valid("+c.quoted+")") }
		if c.typ == "longtext" && slices.ContainsFunc(clauses, isJSON) {
			c.typ, c.textual = "json", true
		}
	}
	return err
}

func (s *Sink) readIndexes(ctx context.Context, tx *sql.Tx, sh *shape) error {
	return eachRow(ctx, tx, func(rows *sql.Rows) error {
		var name string
		var nonUnique bool
		var p part
		if err := rows.Scan(&name, &nonUnique, &p.column, &p.prefix); err != nil {
			return err
		}
		last := len(sh.indexes) - 1
		if last < 0 || sh.indexes[last].name != name {
			sh.indexes = append(sh.indexes, index{name: name, unique: !nonUnique})
			last++
		}
		sh.indexes[last].parts = append(sh.indexes[last].parts, p)
		return nil
	}, `SELECT INDEX_NAME, NON_UNIQUE, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL
		FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX`,
		sh.database, sh.table)
}

// keep returns the keeper of a view, or an error if the view's table is unsuitable.
func (s *Sink) keep(ctx context.Context, v *replicator.View, from *origins) (*keeper, error) {
	sh, err := s.readShape(ctx, settingsOf(v).Table)
	if err != nil {
		return nil, err
	}
	if sh == nil {
		database, table := split(settingsOf(v).Table, s.database)
		return nil, replicator.Fatal(fmt.Errorf("table %s.%s is missing in sink %s, or the user may not see it. "+
			"If it is missing, run `replicator rebuild %s`, which creates and fills it, or set create = true in the "+
			"view, so that the program creates it. `replicator schema` prints its DDL. If it exists, grant the "+
			"user SELECT, INSERT, UPDATE and DELETE on it", database, table, s.name, v.Name))
	}
	k, problems := s.plan(v, sh)
	if k != nil {
		k.definition = sh.definition
	}
	if len(problems) == 0 {
		if problems, err = s.confuses(ctx, k, from); err != nil {
			return nil, err
		}
	}
	if len(problems) > 0 {
		return nil, replicator.Fatal(fmt.Errorf("table %s can't hold the view: %s%s%s", sh.name(),
			strings.Join(problems, "; "), s.unaltered(ctx, v), s.missing(ctx, v, sh, from)))
	}
	return k, s.probe(ctx, k)
}

// probe runs each kind of statement that the view needs, on no rows, to find a missing grant early.
func (s *Sink) probe(ctx context.Context, k *keeper) error {
	database, _ := split(settingsOf(k.view).Table, s.database)
	return s.tryOut(ctx, database, k.table, k.managed()[0].quoted, "the view needs")
}

// probeOwn tries out each kind of statement on the sink's own tables, to find missing grants.
func (s *Sink) probeOwn(ctx context.Context) error {
	columns := map[string]string{viewsTable: "id", stateTable: "entity", locksTable: "id", horizonTable: "view"}
	for table, column := range columns {
		if err := s.tryOut(ctx, s.database, sqlname.Quote(table), column, "the sink needs"); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) tryOut(ctx context.Context, database, table, q, whose string) error {
	for _, st := range []string{
		"SELECT " + q + " FROM " + table + " WHERE FALSE",
		"DELETE FROM " + table + " WHERE FALSE",
		"INSERT INTO " + table + " (" + q + ") SELECT " + q + " FROM " + table + " WHERE FALSE",
		"UPDATE " + table + " SET " + q + " = " + q + " WHERE FALSE",
	} {
		if _, err := s.db.ExecContext(ctx, st); err != nil && !is(err, 1364) {
			said := classify(err, "trying out what "+whose+" on table "+table+" (SELECT, INSERT, UPDATE, DELETE)")
			return s.withGrant(ctx, said, err, database)
		}
	}
	return nil
}
