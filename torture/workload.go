package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"replicator/internal/pause"
)

// workload changes the source's tables at random. It does not track transactions that a killed server left open: at the
// end, the source's tables show which rows exist.
type workload struct {
	db     *sql.DB
	parts  []string // the source's databases
	tables []Table
	groups bool         // views join the groups table, whose rows also change
	forest bool         // the plan has tables with foreign keys (forest.go)
	moving bool         // keys move between the databases, and transactions run one after another
	wrote  atomic.Int64 // how many transactions were committed or rolled back
	n      atomic.Int64 // the last number written to any column named n; it only grows, and the reader watches it
	hold   sync.RWMutex // each transaction holds it for reading; faults that need unchanging tables lock it
	pace   time.Duration
	skew   atomic.Int64 // how many seconds the source's clock is ahead
	jumped atomic.Bool  // the clock was ahead at some time
}

// groups are the groups of counters and rankings. If the MySQL sink has two shards, each shard has two of the groups.
var groups = []string{"red", "green", "blue", "grey"}

// firstN is the first value of the columns n. It is above 2^53, up to which a double represents all integers exactly.
const firstN = 1<<53 + 1

// prepare fills the tables with the keys that always exist, and some others.
func (w *workload) prepare(ctx context.Context, r *rand.Rand) error {
	w.n.Store(firstN)
	if w.groups {
		if err := w.prepareGroups(ctx, r); err != nil {
			return err
		}
	}
	if w.forest {
		if err := w.prepareForest(ctx, r); err != nil {
			return err
		}
	}
	for _, t := range w.tables {
		for _, part := range w.parts {
			for _, one := range t.parts() {
				if _, err := w.db.ExecContext(ctx, one.ddl(part)); err != nil {
					return err
				}
			}
		}
		for n := range Kept {
			if err := w.put(ctx, w.db, t, r, n); err != nil {
				return err
			}
		}
	}
	for range 30 {
		if err := w.transaction(ctx, r, 3); err != nil {
			return err
		}
	}
	return nil
}

// run writes until ctx ends. While the source is down, it waits.
func (w *workload) run(ctx context.Context, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x777269746572))
	for ctx.Err() == nil {
		size := 1 + r.IntN(4)
		if r.IntN(60) == 0 {
			size = 150
		}
		if w.transaction(ctx, r, size) == nil {
			w.wrote.Add(1)
		}
		if pause.For(ctx, time.Duration(r.Int64N(int64(2*w.pace)))) != nil {
			return
		}
	}
}

func (w *workload) huge(ctx context.Context, r *rand.Rand) error { return w.transaction(ctx, r, 3000) }

// transaction runs a transaction with this many changes. It rolls back one transaction in ten.
func (w *workload) transaction(ctx context.Context, r *rand.Rand, size int) error {
	if w.moving {
		w.hold.Lock()
		defer w.hold.Unlock()
	} else {
		w.hold.RLock()
		defer w.hold.RUnlock()
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if skew := w.skew.Load(); skew != 0 || w.jumped.Load() { // a connection keeps a timestamp until it is set again
		w.jumped.Store(true)
		if _, err := tx.ExecContext(ctx, fmt.Sprint("SET timestamp = ", time.Now().Unix()+skew)); err != nil {
			return err
		}
	}
	for range size {
		if err := w.change(ctx, tx, pick(r, w.tables...), r); err != nil {
			return err
		}
	}
	if r.IntN(10) == 0 {
		return tx.Rollback()
	}
	return tx.Commit()
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (w *workload) change(ctx context.Context, tx execer, t Table, r *rand.Rand) error {
	if w.groups && r.IntN(6) == 0 {
		return w.changeGroup(ctx, tx, r)
	}
	if w.forest && r.IntN(4) == 0 {
		return w.changeForest(ctx, tx, r)
	}
	if w.moving && r.IntN(6) == 0 {
		return w.move(ctx, tx, t, r)
	}
	n := r.IntN(t.Keys)
	if r.IntN(4) == 0 { // keys that change often
		n = r.IntN(min(t.Keys, 8))
	}
	if n >= Kept && r.IntN(4) == 0 {
		return w.remove(ctx, tx, t, r, n)
	}
	return w.put(ctx, tx, t, r, n)
}

// put writes the nth key: a new version, or the row itself in a table of plain rows. Keys that always exist never get a
// body that can't be decoded.
func (w *workload) put(ctx context.Context, tx execer, t Table, r *rand.Rand, n int) error {
	key := t.Key.values(n)
	next := w.n.Add(1)
	var email any
	if r.IntN(5) > 0 {
		email = fmt.Sprintf("%d@x.org", r.IntN(12))
	}
	grp, amount := groups[r.IntN(len(groups))], r.IntN(101)-5
	table, err := w.in(ctx, tx, t, n)
	if err != nil {
		return err
	}
	marks := strings.Repeat("?, ", len(key))
	if t.Shape == rows {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %s (%s, n, email, grp, amount) VALUES (%s?, ?, ?, ?)
			ON DUPLICATE KEY UPDATE n = GREATEST(n, VALUES(n)), email = VALUES(email), grp = VALUES(grp),
				amount = VALUES(amount)`,
			table, strings.Join(t.Key.columns(), ", "), marks), append(key, next, email, grp, amount)...)
		return err
	}
	body := fmt.Sprintf(`{"n": %d, "grp": %q, "amount": %d`, next, grp, amount)
	if email != nil {
		body += fmt.Sprintf(`, "email": %q`, email)
	}
	body += "}"
	column := "main"
	switch {
	case t.Shape == cells && n >= Kept && r.IntN(3) == 0:
		column, body = "more", fmt.Sprintf(`{"city": "city %d"}`, r.IntN(5))
	case n >= Kept && r.IntN(40) == 0:
		body = `{"n": ` // this body can't be decoded, so it becomes a dead letter
	}
	version := next
	if n >= Kept && r.IntN(6) == 0 {
		version -= r.Int64N(200) // a version that arrives after newer ones
	}
	columns, args := strings.Join(t.Key.columns(), ", "), key
	if t.Shape == cells {
		columns, args, marks = columns+", col", append(args, column), marks+"?, "
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT IGNORE INTO %s (%s, version, body) VALUES (%s?, ?)",
		table, columns, marks), append(args, version, t.encode(body))...)
	return err
}

func (t Table) encode(body string) []byte {
	if t.Codec == "json" {
		return []byte(body)
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(body)) // writing to memory can't fail
	_ = z.Close()
	return b.Bytes()
}

// remove deletes the nth key's row, or its newest version, its oldest version, or all versions.
func (w *workload) remove(ctx context.Context, tx execer, t Table, r *rand.Rand, n int) error {
	table, err := w.in(ctx, tx, t, n)
	if err != nil {
		return err
	}
	order := ""
	if t.Shape != rows {
		order = pick(r, "", " ORDER BY version DESC LIMIT 1", " ORDER BY version LIMIT 1")
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM "+table+t.where()+order, t.Key.values(n)...)
	return err
}
