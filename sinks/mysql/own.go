package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"replicator"
)

// The names of the sink's own tables, which are in the database that the DSN names.
const (
	viewsTable = "replicator_views"
	stateTable = "replicator_state"
	locksTable = "replicator_locks"

	horizonTable = "replicator_horizons"
)

var ownNames = []string{viewsTable, stateTable, locksTable, horizonTable}

// ownTables creates the sink's own tables. The row of a redefined view stays, without a name, so that its id, which
// states may still mention, is never used again. The table of views is created last. So if it exists and the table of
// states doesn't, the states were lost.
var ownTables = []string{
	"CREATE TABLE IF NOT EXISTS " + locksTable + ` (
  id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  epoch BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB`,
	"CREATE TABLE IF NOT EXISTS " + stateTable + ` (
  entity VARBINARY(2048) NOT NULL,
  cell VARBINARY(768) NOT NULL,
  state LONGBLOB NOT NULL,
  PRIMARY KEY (entity, cell)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
	"CREATE TABLE IF NOT EXISTS " + horizonTable + ` (
  view INT UNSIGNED NOT NULL PRIMARY KEY,
  horizon BIGINT NOT NULL
) ENGINE=InnoDB`,
	"CREATE TABLE IF NOT EXISTS " + viewsTable + ` (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  source VARCHAR(64) NOT NULL,
  name VARCHAR(255) NULL,
  fingerprint VARCHAR(255) NOT NULL,
  salt BINARY(16) NOT NULL,
  phase VARCHAR(16) NOT NULL,
  target VARCHAR(255) NOT NULL DEFAULT '',
  mark_order BIGINT NOT NULL DEFAULT 0,
  mark_token MEDIUMTEXT NOT NULL,
  UNIQUE KEY (source, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`,
}

// createOwn creates the sink's own tables if they are missing. If the states are gone but marks are left, it removes
// the marks too, because without states no process can tell whether a change is stale.
func (s *Sink) createOwn(ctx context.Context) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	existing, err := s.existing(ctx, ownNames...)
	if err != nil {
		return err
	}
	if existing[viewsTable] && !existing[stateTable] {
		s.log.Warn("the table of states is gone, so the marks of all views are removed: on_lost decides whether the "+
			"views are filled again", "sink", s.name, "table", stateTable)
		if _, err := s.db.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = NULL"); err != nil {
			return classify(err, "table "+viewsTable)
		}
	}
	if len(existing) < len(ownNames) {
		for _, ddl := range ownTables {
			if _, err := s.db.ExecContext(ctx, ddl); err != nil {
				return classify(err, fmt.Sprintf("creating the sink's own tables in database %s (the user needs CREATE there; `replicator check` prints the GRANT)",
					s.database))
			}
		}
	}
	var n int
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+locksTable).Scan(&n); err != nil {
		return classify(err, "table "+locksTable)
	}
	if n >= replicator.Partitions {
		return nil
	}
	var rows []string
	for i := range replicator.Partitions {
		rows = append(rows, fmt.Sprintf("(%d)", i))
	}
	_, err = s.db.ExecContext(ctx, "INSERT IGNORE INTO "+locksTable+" (id) VALUES "+strings.Join(rows, ","))
	return classify(err, "table "+locksTable)
}

func (s *Sink) existing(ctx context.Context, tables ...string) (map[string]bool, error) {
	args := []any{s.database}
	for _, t := range tables {
		args = append(args, t)
	}
	names, err := texts(ctx, s.db, "SELECT TABLE_NAME FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = ? AND TABLE_NAME IN ("+placeholders(len(tables))+")", args...)
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	return found, classify(err, "looking for tables")
}

// register gives the view its id and salt. A view that is already registered with the same fingerprint keeps its id and
// salt. emptied reports whether a counter's table was emptied, which raises the epoch.
func (s *Sink) register(ctx context.Context, source string, k *keeper) (emptied bool, err error) {
	for range 3 {
		var fingerprint string
		var m storedMark
		row := s.db.QueryRowContext(ctx, "SELECT id, fingerprint, salt, mark_order, mark_token, phase FROM "+viewsTable+
			" WHERE source = ? AND name = ?",
			source, k.view.Name)
		err = row.Scan(&k.id, &fingerprint, &k.salt, &m.order, &m.token, &m.phase)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return false, classify(err, "table "+viewsTable)
		case fingerprint == k.view.Fingerprint:
			k.marked, err = m.standing()
			return emptied, err
		case k.ledger: // registerLedger ends the old registration
		default:
			if _, err := s.db.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = NULL WHERE id = ?", k.id); err != nil {
				return false, classify(err, "table "+viewsTable)
			}
		}
		if k.ledger {
			if emptied, err = s.registerLedger(ctx, source, k); err != nil {
				return false, classify(err, "view "+k.view.Name+": emptying table "+settingsOf(k.view).Table)
			}
			continue
		}
		err = s.insertView(ctx, s.db, source, k)
		if err != nil && !is(err, 1062) { // a duplicate key: another replicator has just registered the view
			return false, classify(err, "table "+viewsTable)
		}
		k.fresh.Store(err == nil)
	}
	return false, errors.New("another replicator keeps the view with another definition at the same time. " +
		"Stop one of the two, or give both the same configuration")
}

func (s *Sink) insertView(ctx context.Context, e execer, source string, k *keeper) error {
	salt := make([]byte, 16)
	rand.Read(salt)
	_, err := e.ExecContext(ctx, "INSERT INTO "+viewsTable+
		" (source, name, fingerprint, salt, phase, target, mark_token) VALUES (?, ?, ?, ?, ?, ?, '')",
		source, k.view.Name, k.view.Fingerprint, salt, replicator.PhaseFilling, settingsOf(k.view).Table)
	return err
}

// retiredIDs returns the ids of views that were forgotten or redefined. A state drops its parts for these views when it
// is written next.
func retiredIDs(ctx context.Context, q querier) (map[uint32]bool, error) {
	ids := map[uint32]bool{}
	err := eachRow(ctx, q, func(rows *sql.Rows) error {
		var id uint32
		err := rows.Scan(&id)
		ids[id] = true
		return err
	}, "SELECT id FROM "+viewsTable+" WHERE name IS NULL")
	return ids, classify(err, "table "+viewsTable)
}

// Marks implements replicator.Sink. It reads the marks from replicator_views.
func (s *Sink) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	if err := s.completeSwaps(ctx); err != nil {
		return nil, err
	}
	var found []replicator.Mark
	err := eachRow(ctx, s.db, func(rows *sql.Rows) error {
		var m replicator.Mark
		var stored storedMark
		if err := rows.Scan(&m.View, &m.Fingerprint, &stored.order, &stored.token, &stored.phase); err != nil {
			return err
		}
		m.Standing, m.Err = stored.standing()
		found = append(found, m)
		return nil
	}, "SELECT name, fingerprint, mark_order, mark_token, phase FROM "+viewsTable+
		" WHERE source = ? AND name IS NOT NULL ORDER BY id", source)
	return found, ofViews(err)
}

// ofViews classifies the error of a statement on the table of views. It returns nil if that table is missing, because
// then the sink holds no views.
func ofViews(err error) error {
	if is(err, noTable, noDatabase) {
		return nil
	}
	return classify(err, "table "+viewsTable)
}

// Sources implements replicator.Sourced. It reads the names from replicator_views.
func (s *Sink) Sources(ctx context.Context) ([]string, error) {
	sources, err := texts(ctx, s.db, "SELECT DISTINCT source FROM "+viewsTable+" WHERE name IS NOT NULL")
	return sources, ofViews(err)
}

// Forget implements replicator.Sink. It removes the view's name from its rows in replicator_views. The next Open then
// gives the view a new id, and states that mention the old id don't count.
func (s *Sink) Forget(ctx context.Context, view string) error {
	_, err := s.db.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = NULL WHERE name = ?", view)
	return ofViews(err)
}
