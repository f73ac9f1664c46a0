package canal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/sqlname"
)

// A pattern may match thousands of tables. In information_schema, MySQL 8.0 and later need a millisecond or more to
// describe one table, and hardly longer for a hundred. MariaDB and MySQL 5.7 describe one table quickly, but open every
// table of the database if asked about several.

// shapesAtOnce is how many tables' schemas are read together. Meanwhile, ALTERs of these tables must wait.
const shapesAtOnce = 100

// shapeAt is a table's schema, and a log end at which the table has this schema.
type shapeAt struct {
	shape *schema
	end   logEnd
}

// readSchemas returns the schemas of many tables by table ID. It leaves out tables with problems, and all tables if
// reading them together is not faster on this server. The caller reads the tables left out one by one with
// readSchemaAt.
func readSchemas(ctx context.Context, db beginner, srv server, tables []replicator.Table) (map[string]shapeAt, error) {
	found := map[string]shapeAt{}
	if srv.flavor == gtid.MariaDB || !srv.isFrom(8, 0, 0) {
		return found, nil
	}
	byDatabase := map[string][]replicator.Table{}
	for _, t := range tables {
		byDatabase[t.Database] = append(byDatabase[t.Database], t)
	}
	for _, all := range byDatabase {
		for some := range slices.Chunk(all, shapesAtOnce) {
			err := readSomeSchemas(ctx, db, srv, some, found)
			if my := (*mysqlError)(nil); err != nil && !errors.As(err, &my) {
				return nil, err
			}
		}
	}
	return found, nil
}

func readSomeSchemas(
	ctx context.Context, db beginner, srv server, tables []replicator.Table, found map[string]shapeAt,
) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	shapes := map[string]*schema{}
	args := []any{tables[0].Database}
	for i := range tables {
		if err := touch(ctx, tx, &tables[i]); err != nil {
			return err
		}
		shapes[tables[i].Table] = &schema{constants: constantsOf(&tables[i])}
		args = append(args, tables[i].Table)
	}
	indexes := map[string][]index{}
	for _, q := range []struct {
		fields, from, order string
		read                func(name string, s *schema, scan func(...any) error) error
	}{
		{columnFields, "columns", "ordinal_position",
			func(_ string, s *schema, scan func(...any) error) error { return s.readColumn(scan) }},
		{optionFields, "tables", "1",
			func(_ string, s *schema, scan func(...any) error) error { return s.readOption(scan) }},
		{indexFields, "statistics", indexOrder,
			func(name string, _ *schema, scan func(...any) error) (err error) {
				indexes[name], err = readIndex(indexes[name], scan)
				return err
			}},
	} {
		rows, err := tx.QueryContext(ctx, "SELECT table_name, "+q.fields+" FROM information_schema."+q.from+
			" WHERE table_schema = ? AND table_name IN (?"+strings.Repeat(", ?", len(tables)-1)+") ORDER BY table_name, "+
			q.order, args...)
		if err != nil {
			return err
		}
		err = eachRow(rows, func() error {
			var name string
			if err := rows.Scan(append([]any{&name}, skipped(rows)...)...); err != nil {
				return err
			}
			if shapes[name] == nil {
				return nil
			}
			return q.read(name, shapes[name], func(into ...any) error { return rows.Scan(append([]any{&name}, into...)...) })
		})
		if err != nil {
			return err
		}
	}
	var end logEnd
	if end.file, end.pos, _, err = srv.status(ctx, tx); err != nil {
		return err
	}
	for i := range tables {
		if s := shapes[tables[i].Table]; len(s.columns) > 0 {
			s.takeIndexes(indexes[tables[i].Table])
			s.mixed = s.mixesSpellings(&tables[i])
			found[idOf(&tables[i])] = shapeAt{s, end}
		}
	}
	return nil
}

// skipped returns Scan targets for all of a row's values except the first, to discard them.
func skipped(rows *sql.Rows) []any {
	columns, _ := rows.Columns() // Scan fails if the columns are unknown
	into := make([]any, max(len(columns)-1, 0))
	for i := range into {
		into[i] = new(any)
	}
	return into
}

// touch reads from a table. Until the transaction ends, no ALTER of the table can complete.
func touch(ctx context.Context, tx *sql.Tx, t *replicator.Table) error {
	var none int
	err := tx.QueryRowContext(ctx,
		"SELECT 1 FROM "+sqlname.Quote(t.Database)+"."+sqlname.Quote(t.Table)+" LIMIT 0").Scan(&none)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
