package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"sync"
	"time"

	"replicator"
)

// To notice an emptied table (TRUNCATE, DELETE), each check notes some rows, the witnesses, and the log position of
// each one's last change. The next check looks for the witnesses that have not changed since. The table counts as
// emptied if there are at least emptiedEvidence of them, all are gone, and no other row is from before the last check.
// If a person deletes only some rows, other old rows remain.
const (
	emptiedEvidence = 100
	mostWitnesses   = 1000   // the most witnesses of a check: keys or, for a counter, sums
	witnessRows     = 5000   // the most rows that a check reads to choose witnesses
	oldRows         = 20_000 // the most rows that a check reads to find one from before the last check
	witnessStates   = 20_000 // the most states that one query reads to find the last changes of keys
	emptiedSample   = 2000   // the most states that a check reads to find keys that the view must show
)

// witnesses are some rows that a view's table had at a check. If all of them are gone at the next check, the table may
// have been emptied.
type witnesses struct {
	at    time.Time
	order int64                    // all changes before this log position were applied
	rows  map[replicator.Key]int64 // by key: the log position of the last change of the key's cells
	sums  []row                    // a counter's groups and sums
}

// lastChecks has, by view id, the rows that the last check of the view's table noted. It outlives targets.
type lastChecks struct {
	every time.Duration // the time between two checks of a table

	mu   sync.Mutex
	last map[uint32]witnesses
}

func (l *lastChecks) isDue(view uint32) bool { return time.Since(l.get(view).at) >= l.every }

func (l *lastChecks) get(view uint32) witnesses {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[view]
}

func (l *lastChecks) put(view uint32, w witnesses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[uint32]witnesses{}
	}
	l.last[view] = w
}

func (l *lastChecks) forget(retired map[uint32]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range retired {
		delete(l.last, id)
	}
}

// lookForLoss reports whether a table was emptied since its last check, and notes some rows for the next check. All
// changes before the log position `order` have been applied.
func (t *Target) lookForLoss(ctx context.Context, k *keeper, order int64) (lost bool, err error) {
	tx, err := t.sink.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return false, err
	}
	since, now := t.sink.lastChecks.get(k.id), witnesses{at: time.Now(), order: order}
	if k.ledger {
		if lost, err = t.lostSums(ctx, tx, k, since); err == nil && !lost {
			now.sums, err = readSums(ctx, tx, k, " LIMIT "+strconv.Itoa(mostWitnesses))
		}
	} else {
		if len(since.rows) == 0 {
			since, err = t.firstWitnesses(ctx, tx, k, order)
		}
		if err == nil {
			lost, err = t.lostRows(ctx, tx, k, since)
		}
		if err == nil && !lost {
			now.rows, err = t.noteRows(ctx, tx, k)
		}
	}
	if err = rollback(tx, err); err == nil && !lost {
		t.sink.lastChecks.put(k.id, now)
	}
	return lost, err
}

// shown returns the keys of cells that the view shows. It reads only the first emptiedSample states of the source's
// cells.
func (t *Target) shown(ctx context.Context, k *keeper) (keys []replicator.Key, err error) {
	cells, _, err := t.cells(ctx, "", emptiedSample, func(state cellState) bool { return state.find(k.id).known().Shown })
	seen := map[replicator.Key]bool{}
	for _, c := range cells {
		if !seen[c.Key] {
			seen[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys, err
}

// firstWitnesses chooses the rows that a process's first check looks for. The table must have these rows: the cells'
// states say so, and no change after the view's stored progress concerns them. If no progress is stored, the log
// position `order` serves instead.
func (t *Target) firstWitnesses(ctx context.Context, tx *sql.Tx, k *keeper, order int64) (w witnesses, err error) {
	keys, err := t.shown(ctx, k)
	if err != nil {
		return w, err
	}
	w.order = cmp.Or(k.marked.Position.Order, order)
	w.rows, err = t.lastChanges(ctx, tx, k, keys)
	maps.DeleteFunc(w.rows, func(_ replicator.Key, last int64) bool { return last > w.order })
	return w, err
}

// noteRows chooses some keys of a table's rows, and returns the log position of each key's last change.
func (t *Target) noteRows(ctx context.Context, tx *sql.Tx, k *keeper) (map[replicator.Key]int64, error) {
	keys, err := k.someKeys(ctx, tx, witnessRows, mostWitnesses)
	if err != nil {
		return nil, err
	}
	return t.lastChanges(ctx, tx, k, keys)
}

// converted converts keys to values of the table's key columns. It omits keys that can't be converted.
func (k *keeper) converted(of []replicator.Key) (keys [][]any) {
	for _, key := range of {
		values, err := key.Values()
		if err != nil {
			continue
		}
		if converted, err := k.key(values); err == nil {
			keys = append(keys, converted)
		}
	}
	return keys
}

// lostRows reports whether the table was emptied since the last check. Of the rows noted then, enough must be unchanged
// since, and all of these must be gone. No other row may be from before the last check.
func (t *Target) lostRows(ctx context.Context, tx *sql.Tx, k *keeper, since witnesses) (bool, error) {
	some, err := k.someKeys(ctx, tx, 1, 1)
	if err != nil {
		return false, err
	}
	last, err := t.lastChanges(ctx, tx, k, slices.Collect(maps.Keys(since.rows)))
	if err != nil {
		return false, err
	}
	var unchanged []replicator.Key
	for key, order := range last {
		// A row that changed since the last check proves nothing, unless the table is empty: `last` has only keys that
		// the view must show.
		if order == since.rows[key] || len(some) == 0 {
			unchanged = append(unchanged, key)
		}
	}
	if len(unchanged) < emptiedEvidence {
		return false, nil
	}
	if held, err := k.holds(ctx, tx, k.converted(unchanged)); err != nil || held {
		return false, err
	}
	others, err := k.someKeys(ctx, tx, oldRows, oldRows)
	if err != nil {
		return false, err
	}
	last, err = t.lastChanges(ctx, tx, k, others)
	for _, order := range last {
		if order <= since.order {
			return false, err
		}
	}
	return true, err
}

// lastChanges reads the keys' states, and returns for each key the log position of its last change. It omits keys that
// the view doesn't show, and a key with more states than one query reads.
func (t *Target) lastChanges(
	ctx context.Context, tx *sql.Tx, k *keeper, keys []replicator.Key,
) (map[replicator.Key]int64, error) {
	found := map[replicator.Key]int64{}
	for n := 0; n < len(keys); n += maxList {
		shows, last := map[string]bool{}, map[string]int64{}
		var w writer
		var entities []string
		for _, key := range keys[n:min(n+maxList, len(keys))] {
			entities = append(entities, entityID(t.source, key))
		}
		w.writeReading(entities, nil)
		w.write(inOrder, strconv.Itoa(witnessStates))
		rows, err := tx.QueryContext(ctx, string(w.text))
		if err != nil {
			return nil, err
		}
		read, at := 0, ""
		err = scanStates(rows, func(entity, _ []byte, state cellState, _ string) error {
			read, at = read+1, string(entity)
			if v := state.find(k.id); v != nil {
				shows[at] = shows[at] || v.known().Shown
				last[at] = max(last[at], v.state.Order, v.state.AsOf)
			}
			return nil
		})
		rows.Close()
		if err != nil {
			return nil, err
		}
		if read == witnessStates { // the last entity may have more states, so omit it
			shows[at] = false
		}
		for i, e := range entities {
			if shows[e] {
				found[keys[n+i]] = last[e]
			}
		}
	}
	return found, nil
}

func (k *keeper) holds(ctx context.Context, tx *sql.Tx, keys [][]any) (held bool, err error) {
	for some := range slices.Chunk(keys, maxList) {
		err := eachRow(ctx, tx, func(*sql.Rows) error { held = true; return nil }, "SELECT 1 FROM "+k.table+" WHERE "+
			oneOf(k.keys, len(some), func(n int) []any { return some[n] })+" LIMIT 1")
		if err != nil || held {
			return held, err
		}
	}
	return false, nil
}

// someKeys returns the distinct keys of a table's first rows, with the types of the source's columns. If a type is
// unknown, a key may be wrong. That is harmless, because a wrong key has no state.
func (k *keeper) someKeys(ctx context.Context, tx *sql.Tx, rows, most int) (keys []replicator.Key, err error) {
	kinds := make([]any, len(k.keys))
	for i := range k.keys {
		if i < len(k.origin) && k.origin[i] != nil && k.keyOf[i] < len(kinds) {
			kinds[k.keyOf[i]] = k.origin[i].keyKind()
		}
	}
	columns := quotedList(k.keys)
	err = eachTexts(ctx, tx, len(k.keys), func(texts []sql.NullString) {
		if key, err := k.sourceKey(texts, kinds); err == nil {
			keys = append(keys, key)
		}
	}, fmt.Sprintf("SELECT DISTINCT %s FROM (SELECT %s FROM %s LIMIT %d) some LIMIT %d",
		columns, columns, k.table, rows, most))
	return keys, err
}

// lostSums reports whether a counter lost at least half of every sum, though the cells' states still have the missing
// amounts. If the states lack these amounts, too, changes at the source made the sum smaller.
func (t *Target) lostSums(ctx context.Context, tx *sql.Tx, k *keeper, since witnesses) (bool, error) {
	last := len(k.fields) - 1
	stored := sums{}
	for some := range slices.Chunk(since.sums, maxList) {
		found, err := readSums(ctx, tx, k, " WHERE "+k.isOneOf(some))
		if err != nil {
			return false, err
		}
		stored.add(found, false)
	}
	for _, r := range since.sums {
		if s := stored[groupID(r[:last])]; s != nil && !atMostHalf(s.total, rational(r[last])) {
			return false, nil
		}
	}
	if len(since.sums) == 0 { // a process's first check has no sums of the counter from an earlier check
		if rows, err := readSums(ctx, tx, k, " LIMIT 1"); err != nil || len(rows) > 0 {
			return false, err
		}
	}
	shown, err := t.shown(ctx, k)
	if err != nil || len(shown) < emptiedEvidence {
		return false, err
	}
	wrong, end, err := wrongSumsIn(ctx, tx, k, everyGroup(), t.sink.sumBytes)
	if err != nil {
		return false, err
	}
	right := map[string]bool{}
	for id := range stored {
		right[id] = hashOf(id) <= end
	}
	for _, w := range wrong {
		s := stored[w.id]
		right[w.id] = s != nil && !atMostHalf(s.total, new(big.Rat).Add(s.total, rational(w.lacks[last])))
	}
	for id := range stored {
		if right[id] {
			return false, nil
		}
	}
	return len(wrong) > 0, nil
}

// atMostHalf reports whether a sum (n) is at most half of an earlier one (of), or has the opposite sign.
func atMostHalf(n, of *big.Rat) bool {
	twice := new(big.Rat).Mul(n, big.NewRat(2*int64(of.Sign()), 1))
	return twice.Cmp(new(big.Rat).Abs(of)) <= 0
}
