package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// notesDDL creates the source's table for the images stage, which updates the table's rows in place.
const notesDDL = "CREATE TABLE notes (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, n INT NOT NULL, body TEXT NOT NULL)"

const notesTargets = `
[tables.notes]
key = "id"
body = "body"
codec = "json"

[views.shown]
from = "notes"
sink = "main"
kind = "row"
fields = { name = "$name", n = "$n", said = "said" }
`

// Under each value of MySQL's variable binlog_row_image (`rowImages`), the benchmark makes each of the updates in
// `noteUpdates`. In some combinations, the binlog lacks columns that the view needs.
var (
	rowImages   = []string{"FULL", "NOBLOB", "MINIMAL"}
	noteUpdates = []struct{ name, set string }{
		{"body", "n = n + 1, body = REPLACE(body, '\"said\":\"0\"', '\"said\":\"1\"')"},
		{"column", "n = n + 1"},
	}
)

// images measures how fast the program catches up with in-place updates under each binlog_row_image. If a row in the
// binlog is incomplete, the program reads it from the source.
func (l *lab) images(ctx context.Context) error {
	for _, image := range rowImages {
		if err := l.imagesOf(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) imagesOf(ctx context.Context, image string) error {
	l.runs++
	database, dir := fmt.Sprintf("images%d", l.runs), filepath.Join(l.dir, fmt.Sprint(l.runs))
	err := create(ctx, l.sourceDB, database, notesDDL)
	if err == nil {
		err = create(ctx, l.sinkDB, database, "CREATE TABLE shown (id INT PRIMARY KEY, name VARCHAR(40), n INT, said VARCHAR(20))")
	}
	if err == nil {
		err = l.insert(ctx, database+".notes", l.entities, func(i int) string {
			return fmt.Sprintf(`(%d, 'note %[1]d', 0, '{"said":"0","bio":"%s"}')`, 1+i, strings.Repeat("x", l.body))
		})
	}
	if err != nil {
		return err
	}
	if err := l.configure(dir, database, "snapshot", tableSink(l.sink, database)+notesTargets); err != nil {
		return err
	}
	if _, err := l.caughtUp(ctx, dir, "filling a view"); err != nil {
		return err
	}
	first := len(l.results)
	for _, update := range noteUpdates {
		if err := l.updateNotes(ctx, database, image, update.set); err != nil {
			return err
		}
		what := fmt.Sprintf("the program: updates of a %s, binlog_row_image=%s", update.name, image)
		took, err := l.caughtUp(ctx, dir, what)
		if err != nil {
			return err
		}
		l.add(result{Stage: "images-" + strings.ToLower(image) + "-" + update.name, What: what, Cells: l.entities}, took)
	}
	defer l.show.begin("checking every row")()
	checked, err := l.sameRows(ctx, 4, "SELECT id, name, n, JSON_UNQUOTE(JSON_EXTRACT(body, '$.said')) FROM "+database+
		".notes ORDER BY id", "SELECT id, name, n, said FROM "+database+".shown ORDER BY id")
	for i := range l.results[first:] {
		l.results[first+i].Checked = checked
	}
	return err
}

// updateNotes updates every row once, ten in a transaction.
func (l *lab) updateNotes(ctx context.Context, database, image, set string) (err error) {
	defer l.show.begin("writing updates")()
	conn, err := l.sourceDB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_, reset := conn.ExecContext(ctx, "SET SESSION binlog_row_image = 'FULL'")
		err = errors.Join(err, reset, conn.Close())
	}()
	if _, err := conn.ExecContext(ctx, "SET SESSION binlog_row_image = '"+image+"'"); err != nil {
		return err
	}
	for from := 1; from <= l.entities; from += 10 {
		q := fmt.Sprintf("UPDATE %s.notes SET %s WHERE id BETWEEN %d AND %d", database, set, from, from+9)
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) insert(ctx context.Context, table string, n int, row func(i int) string) error {
	for from := 0; from < n; from += 1000 {
		var rows []string
		for i := from; i < min(from+1000, n); i++ {
			rows = append(rows, row(i))
		}
		if _, err := l.sourceDB.ExecContext(ctx, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ",")); err != nil {
			return err
		}
	}
	return nil
}

// sameRows compares the rows of a query in the source with those of a query in the sink, and fails on a difference. It
// returns the number of rows. The rows must not contain NULL.
func (l *lab) sameRows(ctx context.Context, columns int, source, sink string) (checked int64, err error) {
	want, err := l.sourceDB.QueryContext(ctx, source)
	if err != nil {
		return 0, err
	}
	defer want.Close()
	got, err := l.sinkDB.QueryContext(ctx, sink)
	if err != nil {
		return 0, err
	}
	defer got.Close()
	for want.Next() {
		should, holds := make([]string, columns), make([]string, columns)
		if err := scanTexts(want, should); err != nil {
			return 0, err
		}
		if !got.Next() {
			return 0, errors.Join(got.Err(), fmt.Errorf("the result is wrong: the view lacks row %s", should[0]))
		}
		if err := scanTexts(got, holds); err != nil {
			return 0, err
		}
		for i := range should {
			if should[i] != holds[i] {
				return 0, fmt.Errorf("the result is wrong: the view holds %v, not %v", holds, should)
			}
		}
		checked++
	}
	if got.Next() {
		return 0, errors.New("the result is wrong: the view has rows that the source lacks")
	}
	return checked, errors.Join(want.Err(), got.Err())
}

func scanTexts(rows *sql.Rows, texts []string) error {
	into := make([]any, len(texts))
	for i := range texts {
		into[i] = &texts[i]
	}
	return rows.Scan(into...)
}
