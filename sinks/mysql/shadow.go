package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// A shadow is a table beside the live one, in the same database and of the same shape, kept under the view's name with
// replicator.ShadowSuffix. A swap renames all tables in one RENAME TABLE, which is atomic for every reader, but is no part of
// a transaction. So it goes in three steps, each of which can be taken up by whoever comes next:
//
//  1. in one transaction: the shadows' rows in replicator_views get the phase "swapping", and the epoch of every partition is
//     raised. That waits for batches under way, and whoever applies with ids of an earlier Open fails from then on.
//  2. RENAME TABLE live TO old, shadow TO live for every view. Whether it happened is seen by the shadow table's being there.
//  3. in one transaction: the live rows lose their name, the shadows' rows take it; then the old tables are dropped.
const phaseSwapping = "swapping"

var _ replicator.Shadower = (*Sink)(nil)

const (
	shadowTable = "__rebuild"
	oldTable    = "__replaced"
	maxName     = 64 // characters that a table's name may have
)

// Shadow implements replicator.Shadower.
func (s *Sink) Shadow(v *replicator.View) *replicator.View {
	shadow := *v
	shadow.Name, shadow.Shadows, shadow.Table = v.Name+replicator.ShadowSuffix, v.Name, v.Table+shadowTable
	return &shadow
}

// shadowed is the view that a shadow stands in for; the view itself if it is no shadow.
func shadowed(v *replicator.View) *replicator.View {
	if v.Shadows == "" {
		return v
	}
	live := *v
	live.Name, live.Shadows, live.Table = v.Shadows, "", strings.TrimSuffix(v.Table, shadowTable)
	return &live
}

// needsMore says what a rebuild needs, where the server denies it: keeping a view takes less.
func needsMore(err error, doing string) error {
	if is(err, 1142, 1044) {
		return replicator.Fatal(fmt.Errorf("%w; a rebuild needs CREATE, ALTER, DROP and INSERT on the sink's database: grant them, or rebuild --in-place",
			classify(err, doing)))
	}
	return classify(err, doing)
}

// createShadow creates a shadow's table, like the live one. It is renamed there and back, so that a right that the swap will
// need is missed now: a swap that has begun must be completed, and holds up the live view until then.
func (s *Sink) createShadow(ctx context.Context, v *replicator.View) error {
	live := strings.TrimSuffix(v.Table, shadowTable)
	if _, table := split(live, s.database); len([]rune(table+oldTable)) > maxName {
		return replicator.Fatal(fmt.Errorf("view %s: the name of table %s is too long for one beside it: rebuild --in-place", v.Shadows, live))
	}
	shadow, aside := s.tableName(v.Table), s.tableName(v.Table+"_")
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS " + shadow + " LIKE " + s.tableName(live),
		"RENAME TABLE " + shadow + " TO " + aside + ", " + aside + " TO " + shadow,
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return needsMore(err, "view "+v.Shadows+": making the table "+v.Table)
		}
	}
	return nil
}

// tableName is a table's quoted name, with its database.
func (s *Sink) tableName(name string) string {
	database, table := split(name, s.database)
	return sqlname.Quote(database) + "." + sqlname.Quote(table)
}

// Swap implements replicator.Shadower.
func (s *Sink) Swap(ctx context.Context, source string, views []*replicator.View) error {
	if err := s.completeSwaps(ctx); err != nil {
		return err
	}
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE "+locksTable+" SET epoch = epoch + 1 ORDER BY id"); err != nil {
			return err
		}
		for _, v := range views {
			result, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET phase = ? WHERE source = ? AND name = ?", phaseSwapping, source, v.Name+replicator.ShadowSuffix)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n != 1 {
				return errors.Join(err, fmt.Errorf("view %s has no shadow to swap in", v.Name))
			}
		}
		return nil
	})
	if err != nil {
		return classify(err, "beginning the swap")
	}
	return s.completeSwaps(ctx)
}

// swapping is a shadow whose swap has begun.
type swapping struct {
	id           uint32
	source, name string // the view's
	table        string // the shadow's
}

func (b swapping) live() string { return strings.TrimSuffix(b.table, shadowTable) }

// completeSwaps takes swaps that have begun to their end. One process at a time does so.
func (s *Sink) completeSwaps(ctx context.Context) error {
	begun, err := s.swapsBegun(ctx)
	if err != nil || len(begun) == 0 {
		return err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return classify(err, "completing a swap")
	}
	defer conn.Close()
	lock := "replicator swap " + s.database
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 30)", lock).Scan(&got); err != nil || got.Int64 != 1 {
		return errors.Join(classify(err, "completing a swap"), errors.New("another process is completing a swap of this sink's views"))
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", lock) }() // it goes with the connection
	if begun, err = s.swapsBegun(ctx); err != nil || len(begun) == 0 {
		return err
	}
	if err := s.rename(ctx, begun); err != nil {
		return err
	}
	if err := s.transaction(ctx, func(tx *sql.Tx) error { return takeNames(ctx, tx, begun) }); err != nil {
		return classify(err, "ending a swap")
	}
	for _, b := range begun {
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.tableName(b.live()+oldTable)); err != nil {
			s.log.Warn("the table that was replaced can't be dropped", "sink", s.name, "table", b.live()+oldTable, "error", classify(err, "DROP TABLE"))
		}
	}
	return nil
}

func (s *Sink) swapsBegun(ctx context.Context) ([]swapping, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, source, name, target FROM "+viewsTable+" WHERE phase = ? AND name IS NOT NULL ORDER BY id", phaseSwapping)
	if is(err, noTable, noDatabase) {
		return nil, nil // nothing was ever kept here
	}
	if err != nil {
		return nil, classify(err, "table "+viewsTable)
	}
	defer rows.Close()
	var begun []swapping
	for rows.Next() {
		var b swapping
		if err := rows.Scan(&b.id, &b.source, &b.name, &b.table); err != nil {
			return nil, err
		}
		b.name = strings.TrimSuffix(b.name, replicator.ShadowSuffix)
		begun = append(begun, b)
	}
	return begun, classify(rows.Err(), "table "+viewsTable)
}

// rename puts the shadow tables in the live ones' place, all in one statement, unless that has been done.
func (s *Sink) rename(ctx context.Context, begun []swapping) error {
	var pairs []string
	for _, b := range begun {
		sh, err := s.readShape(ctx, b.table)
		if err != nil {
			return err
		}
		if sh == nil {
			continue // it stands in its place already
		}
		old := b.live() + oldTable
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.tableName(old)); err != nil {
			return classify(err, "removing the table "+old)
		}
		live, err := s.readShape(ctx, b.live())
		if err != nil {
			return err
		}
		if live != nil {
			pairs = append(pairs, s.tableName(b.live())+" TO "+s.tableName(old))
		}
		pairs = append(pairs, s.tableName(b.table)+" TO "+s.tableName(b.live()))
	}
	if len(pairs) == 0 {
		return nil
	}
	_, err := s.db.ExecContext(ctx, "RENAME TABLE "+strings.Join(pairs, ", "))
	return classify(err, "renaming the rebuilt tables (that takes ALTER, DROP, CREATE and INSERT)")
}

// takeNames gives the shadows' rows the views' names.
func takeNames(ctx context.Context, tx *sql.Tx, begun []swapping) error {
	for _, b := range begun {
		if _, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = NULL WHERE source = ? AND name = ?", b.source, b.name); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = ?, phase = ?, target = ? WHERE id = ?",
			b.name, phaseFilled, b.live(), b.id); err != nil {
			return err
		}
	}
	return nil
}

// Discard implements replicator.Shadower.
func (s *Sink) Discard(ctx context.Context, views []*replicator.View) error {
	if err := s.completeSwaps(ctx); err != nil {
		return err
	}
	for _, v := range views {
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.tableName(v.Table+shadowTable)); err != nil {
			return needsMore(err, "view "+v.Name+": removing the table "+v.Table+shadowTable)
		}
		if err := s.Forget(ctx, v.Name+replicator.ShadowSuffix); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs do in a transaction.
func (s *Sink) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return rollback(tx, err)
	}
	return tx.Commit()
}

// errSwapped: the views were swapped, or are being swapped, since the target was opened; or a counter was begun anew.
var errSwapped = errors.New("a rebuilt view was swapped in, or a counter begun anew, since the views were opened: they are opened anew")

// readEpoch is the number of swaps, and of counters begun anew, that the sink has seen.
func (s *Sink) readEpoch(ctx context.Context) (epoch int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(epoch), 0) FROM "+locksTable).Scan(&epoch)
	return epoch, classify(err, "table "+locksTable)
}

// sameEpoch reports whether all epochs are the expected one.
func sameEpoch(epochs []int64, want int64) bool {
	return !slices.ContainsFunc(epochs, func(e int64) bool { return e != want })
}
