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

// A rebuild fills a second table, the shadow, while the live one stays in use. A swap then exchanges the two. It has
// three steps, and any process can continue it after each of them:
//
//  1. In one transaction, the shadows' rows in replicator_views get the phase "swapping", and the epoch is raised, so
//     that targets that were opened earlier fail.
//  2. One RENAME TABLE renames live to old, and shadow to live, for all views. If the server refuses it, step 1 is
//     undone.
//  3. In one transaction, the live rows lose their name, and the shadows' rows get it.
//
// Discard later drops the old tables. Until then, a view's old row has the phase "replaced".
const (
	phaseSwapping = "swapping"
	phaseReplaced = "replaced"
)

var _ replicator.Shadower = (*Sink)(nil)

const (
	shadowTable = "__rebuild"
	oldTable    = "__replaced"
	maxName     = 64 // the longest name of a table, in characters
)

func hasRoomBeside(table string) bool { return len([]rune(table+oldTable)) <= maxName }

// Shadow implements replicator.Shadower. The shadow has a table of its own beside the live table.
func (s *Sink) Shadow(v *replicator.View) *replicator.View {
	shadow, settings := *v, settingsOf(v)
	settings.Table += shadowTable
	shadow.Name, shadow.Shadows, shadow.Settings = v.Name+replicator.ShadowSuffix, v.Name, settings
	return &shadow
}

// shadowed returns the view that a shadow will replace, or the view itself if it is not a shadow.
func shadowed(v *replicator.View) *replicator.View {
	if v.Shadows == "" {
		return v
	}
	live, settings := *v, settingsOf(v)
	settings.Table = strings.TrimSuffix(settings.Table, shadowTable)
	live.Name, live.Shadows, live.Settings = v.Shadows, "", settings
	return &live
}

// needsMore classifies an error of a rebuild. If the user lacks a right, the message has the GRANT of all rights that
// rebuilds need.
func (s *Sink) needsMore(ctx context.Context, err error, view, doing string) error {
	doing = "view " + view + ": " + doing
	if is(err, 1142, 1044) {
		return replicator.Fatal(fmt.Errorf("%w. A rebuild beside the view needs more rights than keeping it. Run %s, "+
			"or `replicator rebuild --in-place %s`", classify(err, doing),
			s.grant(ctx, s.database, "CREATE, ALTER, DROP, INSERT"), view))
	}
	return classify(err, doing)
}

// createShadow creates the new table of a rebuild as a copy of the live one, and alters it to fit the view. It also
// renames the copy to another name and back, so that a missing right is found early: once a swap has begun, the live
// view stops until the swap is completed.
func (s *Sink) createShadow(ctx context.Context, v *replicator.View, from *origins) error {
	name := settingsOf(v).Table
	live := strings.TrimSuffix(name, shadowTable)
	sh, err := s.readShape(ctx, name)
	if err != nil {
		return err
	}
	create := settingsOf(v).Create
	if !create { // the shadow is a copy, so the live table must already suit the view
		if _, err := s.keep(ctx, shadowed(v), from); err != nil {
			return fmt.Errorf("view %s: %w", v.Shadows, err)
		}
	} else if sh != nil {
		if !s.fits(v, sh) { // the shadow's table was not altered yet, or fits an earlier definition
			if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+sh.quoted()); err != nil {
				return s.needsMore(ctx, err, v.Shadows, "dropping the table "+name)
			}
			sh = nil
		}
	}
	// The new table will be empty. If an earlier one was filled and then dropped by hand, forget that.
	if sh == nil {
		if err := s.Forget(ctx, v.Name); err != nil {
			return err
		}
	}
	if _, table := split(live, s.database); !hasRoomBeside(table) {
		return replicator.Fatal(fmt.Errorf("view %s: the name of table %s is too long for a suffix. "+
			"Run rebuild --in-place",
			v.Shadows, live))
	}
	shadow, aside := s.tableName(name), s.tableName(name+"_")
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS " + shadow + " LIKE " + s.tableName(live),
		"RENAME TABLE " + shadow + " TO " + aside + ", " + aside + " TO " + shadow,
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return s.needsMore(ctx, err, v.Shadows, "creating the table "+name)
		}
	}
	if !create {
		return nil
	}
	return s.refitShadow(ctx, v, from)
}

// refitShadow alters the new table of a rebuild, a copy of the live one, so that it can hold the view.
func (s *Sink) refitShadow(ctx context.Context, v *replicator.View, from *origins) error {
	sh, err := s.readShape(ctx, settingsOf(v).Table)
	if err != nil || sh == nil {
		return err
	}
	f, err := s.refitting(ctx, v, sh, from)
	if err == nil && f != nil {
		err = f.alter(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("view %s: %w", v.Shadows, err)
	}
	return nil
}

func (s *Sink) tableName(name string) string {
	database, table := split(name, s.database)
	return sqlname.Quote(database) + "." + sqlname.Quote(table)
}

// Swap implements replicator.Shadower. For each view, it renames the live table and the shadow's table, and registers
// the shadow under the view's name.
func (s *Sink) Swap(ctx context.Context, source string, views []*replicator.View) error {
	if err := s.completeSwaps(ctx); err != nil {
		return err
	}
	if err := s.trySwaps(ctx, views); err != nil {
		return err
	}
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE "+locksTable+" SET epoch = epoch + 1 ORDER BY id"); err != nil {
			return err
		}
		var refused []error
		for _, v := range views {
			result, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET phase = ? WHERE source = ? AND name = ?",
				phaseSwapping, source, v.Name+replicator.ShadowSuffix)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil {
				return err
			} else if n != 1 {
				refused = append(refused, noShadow(v))
			}
		}
		return errors.Join(refused...)
	})
	if err != nil {
		return classify(err, "beginning the swap")
	}
	_, undone, err := s.endSwaps(ctx)
	return errors.Join(undone, err)
}

func noShadow(v *replicator.View) error {
	return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s has no shadow to swap in, "+
		"or the shadow's table %s is gone. Rebuild the view again",
		v.Name, settingsOf(v).Table+shadowTable)), v.Name)
}

// trySwaps finds the views that can't be swapped in, before a swap shuts out other processes. For each view, one
// statement renames the live table and the shadow's table and back, which no reader sees. The statement waits a second
// for other sessions that use the tables.
func (s *Sink) trySwaps(ctx context.Context, views []*replicator.View) error {
	var refused []error
	err := s.impatient(ctx, 1, func(conn *sql.Conn) error {
		for _, v := range views {
			switch err := s.trySwap(ctx, conn, v); {
			case err == nil || is(err, errLockWait) && len(views) == 1:
				// The lock timeout of a single view is no refusal: the RENAME in Swap waits longer, and keeps no other
				// view waiting.
			case ofTable(err):
				refused = append(refused, replicator.OfView(fmt.Errorf("view %s: %w", v.Name, classify(err, swappingIn)), v.Name))
			case replicator.IsOfViews(err):
				refused = append(refused, err)
			default:
				return err
			}
		}
		return nil
	})
	return errors.Join(append(refused, classify(err, swappingIn))...)
}

func (s *Sink) trySwap(ctx context.Context, conn *sql.Conn, v *replicator.View) error {
	all, err := s.renames(ctx, swapping{name: v.Name, table: settingsOf(v).Table + shadowTable})
	if err != nil {
		return err
	}
	if all == nil {
		return noShadow(v)
	}
	for _, there := range slices.Backward(all) {
		all = append(all, renaming{there.to, there.from})
	}
	_, err = conn.ExecContext(ctx, renameTables(all))
	return err
}

const swappingIn = "renaming the rebuilt tables (that needs ALTER, DROP, CREATE and INSERT)"

// swapping is a rebuilt view whose swap with the live view has begun and is not completed.
type swapping struct {
	id           uint32
	source, name string
	table        string // the table that the rebuild filled
}

func (b swapping) live() string { return strings.TrimSuffix(b.table, shadowTable) }

// completeSwaps completes swaps that were cut short. If the server refuses one, it undoes the swap, and the next call
// of Swap reports the refusal.
func (s *Sink) completeSwaps(ctx context.Context) error {
	ended, undone, err := s.endSwaps(ctx)
	for _, b := range ended {
		if err := s.dropReplaced(ctx, b.live()); err != nil {
			s.log.Warn(notDropped, "sink", s.name, "table", b.live()+oldTable, "error", err)
		}
	}
	if undone != nil {
		s.log.Warn("the server refuses to complete a swap that was cut short, so the swap was undone; the rebuild "+
			"tries it again", "sink", s.name, "error", undone)
	}
	return err
}

// endSwaps completes swaps that have begun, and undoes those that the server refuses. It takes a lock, so that only one
// process at a time does this.
func (s *Sink) endSwaps(ctx context.Context) (ended []swapping, undone, err error) {
	begun, err := s.swapsBegun(ctx)
	if err != nil || len(begun) == 0 {
		return nil, nil, err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, nil, classify(err, "completing a swap")
	}
	defer conn.Close()
	lock := "replicator swap " + s.database
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 30)", lock).Scan(&got); err != nil || got.Int64 != 1 {
		other := errors.New("another process is completing a swap of this sink's views")
		return nil, nil, errors.Join(classify(err, "completing a swap"), other)
	}
	defer func() { // the lock ends with the connection at the latest
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", lock)
	}()
	if begun, err = s.swapsBegun(ctx); err != nil || len(begun) == 0 {
		return nil, nil, err
	}
	var left []swapping
	if err = s.rename(ctx, begun); err != nil {
		var refused *mysql.MySQLError
		if undone = classify(err, swappingIn); !errors.As(err, &refused) {
			return nil, nil, undone // the server didn't answer, and may still rename the tables
		}
		if left, err = s.notRenamed(ctx, begun); err != nil {
			return nil, nil, err
		}
		begun = slices.DeleteFunc(begun, func(b swapping) bool { return slices.Contains(left, b) })
	}
	err = s.transaction(ctx, func(tx *sql.Tx) error {
		return errors.Join(takeNames(ctx, tx, begun), takeBack(ctx, tx, left))
	})
	if err != nil {
		return nil, nil, classify(err, "ending a swap")
	}
	return begun, undone, nil
}

func (s *Sink) dropReplaced(ctx context.Context, live string) error {
	_, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.tableName(live+oldTable))
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE "+viewsTable+" SET phase = ? WHERE name IS NULL AND phase = ? AND target = ?",
			replicator.PhaseFilled, phaseReplaced, live)
		err = ofViews(err)
	}
	return classify(err, "dropping the replaced table")
}

// dropLeft drops the tables that earlier processes replaced by a swap and did not drop. Only a process's first Open
// does this. The tables that its own swaps replace are left to Discard, so that no Open waits for their DROP.
func (s *Sink) dropLeft(ctx context.Context) error {
	if s.droppedLeft.Load() {
		return nil
	}
	left, err := texts(ctx, s.db, "SELECT DISTINCT target FROM "+viewsTable+" WHERE name IS NULL AND phase = ?",
		phaseReplaced)
	if err != nil {
		return classify(err, "table "+viewsTable)
	}
	for _, live := range left {
		if err := s.dropReplaced(ctx, live); err != nil {
			s.log.Warn(notDropped, "sink", s.name, "table", live+oldTable, "error", err)
		}
	}
	s.droppedLeft.Store(true)
	return nil
}

const notDropped = "the table that a swap replaced can't be dropped"

// notRenamed returns the rebuilt tables that still have their old names after the server refused a RENAME.
func (s *Sink) notRenamed(ctx context.Context, begun []swapping) (left []swapping, err error) {
	for _, b := range begun {
		there, err := s.isThere(ctx, s.tableName(b.table))
		if err != nil {
			return nil, err
		}
		if there {
			left = append(left, b)
		}
	}
	return left, nil
}

// takeBack resets the phase of rebuilt views that the server refused to swap in: from swapping to filled.
func takeBack(ctx context.Context, tx *sql.Tx, refused []swapping) error {
	for _, b := range refused {
		_, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET phase = ? WHERE id = ?", replicator.PhaseFilled, b.id)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) swapsBegun(ctx context.Context) ([]swapping, error) {
	var begun []swapping
	err := eachRow(ctx, s.db, func(rows *sql.Rows) error {
		var b swapping
		err := rows.Scan(&b.id, &b.source, &b.name, &b.table)
		b.name = strings.TrimSuffix(b.name, replicator.ShadowSuffix)
		begun = append(begun, b)
		return err
	}, "SELECT id, source, name, target FROM "+viewsTable+" WHERE phase = ? AND name IS NOT NULL ORDER BY id",
		phaseSwapping)
	return begun, ofViews(err)
}

// renaming is one "a TO b" of a RENAME TABLE. Both names are quoted.
type renaming struct{ from, to string }

func renameTables(all []renaming) string {
	pairs := make([]string, len(all))
	for i, r := range all {
		pairs[i] = r.from + " TO " + r.to
	}
	return "RENAME TABLE " + strings.Join(pairs, ", ")
}

// rename puts the rebuilt tables in the place of the live ones, all in one statement. It skips those that were renamed
// before.
func (s *Sink) rename(ctx context.Context, begun []swapping) error {
	var all []renaming
	for _, b := range begun {
		renames, err := s.renames(ctx, b)
		if err != nil {
			return err
		}
		all = append(all, renames...)
	}
	if len(all) == 0 {
		return nil
	}
	_, err := s.db.ExecContext(ctx, renameTables(all))
	return err
}

// renames returns the renamings that put a rebuilt table in the place of the live one. It returns none if the rebuilt
// table doesn't exist, because then it was renamed before.
func (s *Sink) renames(ctx context.Context, b swapping) ([]renaming, error) {
	shadow, live, old := s.tableName(b.table), s.tableName(b.live()), s.tableName(b.live()+oldTable)
	if there, err := s.isThere(ctx, shadow); err != nil || !there {
		return nil, err
	}
	left, err := s.isThere(ctx, old)
	if err == nil && left { // a process ended before it could drop this table
		_, err = s.db.ExecContext(ctx, "DROP TABLE "+old)
	}
	if err != nil {
		return nil, err
	}
	var renames []renaming
	if there, err := s.isThere(ctx, live); err != nil {
		return nil, err
	} else if there {
		renames = append(renames, renaming{live, old})
	}
	return append(renames, renaming{shadow, live}), nil
}

// takeNames completes a swap in replicator_views: the live views' rows lose their names, and the rebuilt views' rows
// get them.
func takeNames(ctx context.Context, tx *sql.Tx, begun []swapping) error {
	for _, b := range begun {
		_, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = NULL, phase = ?, target = ? WHERE source = ? AND "+
			"name = ?", phaseReplaced, b.live(), b.source, b.name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = ?, phase = ?, target = ? WHERE id = ?",
			b.name, replicator.PhaseFilled, b.live(), b.id); err != nil {
			return err
		}
	}
	return nil
}

// Discard implements replicator.Shadower. It drops the tables of the views' rebuilds, and the tables that swaps
// replaced.
func (s *Sink) Discard(ctx context.Context, views []*replicator.View) error {
	if err := s.completeSwaps(ctx); err != nil {
		return err
	}
	for _, v := range views {
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.tableName(settingsOf(v).Table+shadowTable)); err != nil {
			return s.needsMore(ctx, err, v.Name, "dropping the table "+settingsOf(v).Table+shadowTable)
		}
		if err := s.Forget(ctx, v.Name+replicator.ShadowSuffix); err != nil {
			return err
		}
		if err := s.dropReplaced(ctx, settingsOf(v).Table); err != nil {
			return fmt.Errorf("view %s: dropping the table that a swap replaced: %w", v.Name, err)
		}
	}
	return nil
}

var errSwapped = fmt.Errorf("a rebuilt view was swapped in, or a counter started over, since the views were opened: %w",
	replicator.ErrOpenAgain)

// readEpoch returns the epoch in replicator_locks, which every swap and every fresh start of a counter raise.
func (s *Sink) readEpoch(ctx context.Context) (epoch int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(epoch), 0) FROM "+locksTable).Scan(&epoch)
	return epoch, classify(err, "table "+locksTable)
}

func sameEpoch(epochs []int64, want int64) bool {
	return !slices.ContainsFunc(epochs, func(e int64) bool { return e != want })
}
