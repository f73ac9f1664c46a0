package checkpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

type tables struct {
	checkpoints, letters, layouts string
	lock                          string // the store's name in GET_LOCK
}

func newTables(database, prefix string) tables {
	return tables{checkpoints: sqlname.Quote(prefix + "_checkpoints"), letters: sqlname.Quote(prefix + "_dead_letters"),
		layouts: sqlname.Quote(prefix + "_layouts"), lock: lockNameOf(database, prefix)}
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// create creates missing tables. The tables compare names by bytes, so "a" and "A" are different views.
func (t tables) create(ctx context.Context, db queryer) error {
	const name = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
	for _, ddl := range []string{
		"CREATE TABLE IF NOT EXISTS " + t.checkpoints + " (\n" +
			"  `view` " + name + ",\n  source " + name + ",\n" +
			"  format INT NOT NULL,\n  body LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,\n" +
			"  PRIMARY KEY (`view`, source)\n) ENGINE=InnoDB",
		"CREATE TABLE IF NOT EXISTS " + t.letters + " (\n" +
			"  place BIGINT NOT NULL AUTO_INCREMENT,\n  id CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n" +
			"  `view` " + name + ",\n  source " + name + ",\n  cell_table " + name + ",\n" +
			"  cell_key BLOB NOT NULL,\n  cell_column BLOB NOT NULL,\n  version BIGINT NOT NULL,\n  row_order BIGINT NOT NULL,\n" +
			"  position TEXT CHARACTER SET utf8mb4 NOT NULL,\n  reason TEXT CHARACTER SET utf8mb4 NOT NULL,\n" +
			"  buried_at DATETIME(6) NOT NULL,\n  raw LONGBLOB NULL,\n" +
			"  PRIMARY KEY (place), UNIQUE KEY (id)\n) ENGINE=InnoDB",
		"CREATE TABLE IF NOT EXISTS " + t.layouts + " (\n" +
			"  place BIGINT NOT NULL AUTO_INCREMENT,\n  digest CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n" +
			"  layout LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,\n" +
			"  PRIMARY KEY (place), UNIQUE KEY (digest)\n) ENGINE=InnoDB",
	} {
		_, err := db.ExecContext(ctx, ddl)
		// Several processes that start together create the table at the same time, which may end in a deadlock.
		for isDeadlock(err) && ctx.Err() == nil {
			_, err = db.ExecContext(ctx, ddl)
		}
		if err != nil {
			return lacksRights("creating", err)
		}
	}
	return nil
}

// isDeadlock reports whether the server ended the statement to resolve a deadlock. In MySQL 9 that may happen if
// several sessions run CREATE TABLE IF NOT EXISTS for the same table.
func isDeadlock(err error) bool { return code(err) == 1213 }

func (t tables) readCheckpoints(ctx context.Context, db queryer) (all []replicator.Checkpoint, err error) {
	rows, err := db.QueryContext(ctx, "SELECT `view`, source, format, body FROM "+t.checkpoints+" ORDER BY `view`, source")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c replicator.Checkpoint
		var at place
		var version int
		var body []byte
		if err := rows.Scan(&at.view, &at.source, &version, &body); err != nil {
			return nil, err
		}
		if version > format {
			return nil, fmt.Errorf("%s: view %s: format %d, which a newer version wrote. This version knows "+
				"format %d. Use the newer version", t.checkpoints, at.view, version, format)
		}
		if err := json.Unmarshal(body, &c); err != nil || placeOf(c) != at {
			return nil, fmt.Errorf("%s: the checkpoint of view %s, source %q is damaged (%w). Delete it: "+
				"DELETE FROM %s WHERE `view` = '%s' AND source = '%s'. "+
				"The view then continues from its mark in its sink, or is filled again",
				t.checkpoints, at.view, at.source, errors.Join(err,
					errors.New("column `body` doesn't hold a checkpoint of this view and source")),
				t.checkpoints, at.view, at.source)
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

func (t tables) readIndex(ctx context.Context, db queryer, x *index) (err error) {
	rows, err := db.QueryContext(ctx, "SELECT place, id, `view`, source FROM "+t.letters)
	if err != nil {
		return fmt.Errorf("checkpoint: reading dead letters: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names := map[string]string{} // lets all dead letters share one string for each view or source
	shared := func(name string) string {
		if _, known := names[name]; !known {
			names[name] = name
		}
		return names[name]
	}
	for rows.Next() {
		var e entry
		var text, view, source string
		if err := rows.Scan(&e.at, &text, &view, &source); err != nil {
			return fmt.Errorf("checkpoint: reading dead letters: %w", err)
		}
		e.view, e.source = shared(view), shared(source)
		id, ok := parseID(text)
		if !ok {
			return fmt.Errorf("checkpoint: a dead letter has a damaged id. Delete it: DELETE FROM %s WHERE place = %d",
				t.letters, e.at)
		}
		x.put(id, e)
	}
	return rows.Err()
}

const (
	// mostRaw is how many bytes of its row a dead letter keeps at most. If half the server's max_allowed_packet is
	// less, that is the limit.
	mostRaw = 8 << 20

	// leastPacket is the lowest default of max_allowed_packet, MySQL 5.7's. MariaDB's default is 16 MiB.
	leastPacket = 4 << 20

	mostReason = 4 << 10 // most bytes of a dead letter's reason
)

// bury saves a dead letter and returns its `place`, the AUTO_INCREMENT column in whose order letters are listed. If the
// letter existed, REPLACE gives it a new place, so that it becomes the newest.
func (t tables) bury(ctx context.Context, db queryer, id letterID, d replicator.DeadLetter) (int64, error) {
	reason, raw := strings.ToValidUTF8(d.Reason[:min(len(d.Reason), mostReason)], "�"), d.Raw
	if len(raw) > leastPacket/2 {
		packet := 0
		if err := db.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&packet); err != nil {
			return 0, err
		}
		if most := min(mostRaw, packet/2); len(raw) > most {
			reason += fmt.Sprintf(" (only the first %d of %d bytes of the row are kept)", most, len(raw))
			raw = raw[:most]
		}
	}
	result, err := db.ExecContext(ctx, "REPLACE INTO "+t.letters+
		" (id, `view`, source, cell_table, cell_key, cell_column, version, row_order, position, reason, buried_at, raw)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		id.String(), d.View, d.Source, d.Cell.Table, []byte(d.Cell.Key), []byte(d.Cell.Column),
		d.Version, d.Order, d.Position, reason, d.Time.UTC(), raw)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// A page of dead letters ends at pageBytes of rows, or at pageLetters letters.
const (
	pageBytes   = 4 << 20
	pageLetters = 100
)

// list yields dead letters page by page. While the caller handles a letter, list holds one page in memory, but no
// connection.
func list(
	page func(after int64) (letters []replicator.DeadLetter, last int64, err error),
) iter.Seq2[replicator.DeadLetter, error] {
	return func(yield func(replicator.DeadLetter, error) bool) {
		for after := int64(-1); ; {
			letters, last, err := page(after)
			if err != nil {
				yield(replicator.DeadLetter{}, err)
				return
			}
			for _, d := range letters {
				if !yield(d, nil) {
					return
				}
			}
			if after = last; len(letters) == 0 {
				return
			}
		}
	}
}

// page reads the next page of dead letters, in the order of the AUTO_INCREMENT column `place`. It begins above the
// place `after`, and `last` is the place of the last letter.
func (t tables) page(ctx context.Context, db queryer, view string, after int64) (
	letters []replicator.DeadLetter, last int64, err error,
) {
	query := "SELECT place, id, `view`, source, cell_table, cell_key, cell_column, version, row_order, position, reason, buried_at, raw FROM " +
		t.letters + " WHERE place > ?"
	args := []any{after}
	if view != "" {
		query, args = query+" AND `view` = ?", append(args, view)
	}
	rows, err := db.QueryContext(ctx, query+fmt.Sprintf(" ORDER BY place LIMIT %d", pageLetters), args...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; size < pageBytes && rows.Next(); {
		var d replicator.DeadLetter
		var key, column []byte
		if err := rows.Scan(&last, &d.ID, &d.View, &d.Source, &d.Cell.Table, &key, &column, &d.Version, &d.Order, &d.Position,
			&d.Reason, &d.Time, &d.Raw); err != nil {
			return nil, 0, err
		}
		d.Cell.Key, d.Cell.Column = replicator.Key(key), string(column)
		size += len(d.Raw)
		letters = append(letters, d)
	}
	return letters, last, rows.Err()
}

// mysqlReader reads a store while another process may hold its lock.
type mysqlReader struct {
	db     *sql.DB
	tables tables
}

// ReadMySQL opens the store of OpenMySQL for reading, without taking its lock.
func ReadMySQL(ctx context.Context, dsn, prefix string) (Reader, error) {
	db, t, err := connect(dsn, prefix, longLease)
	if err != nil {
		return nil, err
	}
	r := &mysqlReader{db: db, tables: t}
	if _, err := r.Count(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

const noSuchTable = 1146

// explain turns the server's "no such table" error into ErrNoState.
func (r *mysqlReader) explain(err error) error {
	if code(err) == noSuchTable {
		return fmt.Errorf("checkpoint: %w: there is no table %s. `replicator run` creates it", ErrNoState,
			r.tables.checkpoints)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (r *mysqlReader) Checkpoints(ctx context.Context) ([]replicator.Checkpoint, error) {
	all, err := r.tables.readCheckpoints(ctx, r.db)
	return all, r.explain(err)
}

func (r *mysqlReader) List(ctx context.Context, view string) iter.Seq2[replicator.DeadLetter, error] {
	return list(func(after int64) ([]replicator.DeadLetter, int64, error) {
		letters, last, err := r.tables.page(ctx, r.db, view, after)
		return letters, last, r.explain(err)
	})
}

func (r *mysqlReader) Count(ctx context.Context) (map[string]int, error) {
	x := newIndex()
	if err := r.tables.readIndex(ctx, r.db, x); err != nil {
		return nil, r.explain(err)
	}
	return x.count(), nil
}

func (r *mysqlReader) Close() error { return r.db.Close() }
