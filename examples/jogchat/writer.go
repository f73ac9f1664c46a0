package jogchat

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Writer writes cells as an application does, including rare cases: versions that arrive late, properties that
// disappear or become null, entities that are deleted and return, and keys that end in zero bytes.
type Writer struct {
	db       *sql.DB
	rand     *rand.Rand
	entities []entity
	max      int

	written atomic.Int64
}

type entity struct {
	key    [16]byte
	kind   string
	newest int64
}

// NewWriter returns a writer for up to the given number of entities. Two writers of one database need different seeds.
func NewWriter(db *sql.DB, seed uint64, entities int) *Writer {
	return &Writer{db: db, rand: rand.New(rand.NewPCG(seed, 0)), max: entities}
}

// Written returns how many cells were written or deleted so far. It may be called while the writer works.
func (w *Writer) Written() int64 { return w.written.Load() }

// Step commits one transaction with one or a few changes. After an error, the transaction is either complete or not in
// the database at all, and the caller may continue with the next step.
func (w *Writer) Step(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	n := 1
	if w.rand.IntN(5) == 0 {
		n = 1 + w.rand.IntN(8)
	}
	for range n {
		if err := w.change(ctx, tx); err != nil {
			return err
		}
	}
	if w.rand.IntN(40) == 0 {
		return nil // the application changes its mind: roll back
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.written.Add(int64(n))
	return nil
}

func (w *Writer) change(ctx context.Context, tx *sql.Tx) error {
	if len(w.entities) < w.max && (len(w.entities) == 0 || w.rand.IntN(3) == 0) {
		w.entities = append(w.entities, w.newEntity())
		return w.put(ctx, tx, &w.entities[len(w.entities)-1], 0)
	}
	e := &w.entities[w.rand.IntN(len(w.entities))]
	switch n := w.rand.IntN(20); {
	case n < 12:
		return w.put(ctx, tx, e, 0)
	case n < 14: // late: an older version arrives after a newer one
		return w.put(ctx, tx, e, 1+w.rand.Int64N(1e9))
	case n < 16: // archive: delete all versions but the newest
		return w.delete(ctx, tx, e,
			"ref_key < (SELECT * FROM (SELECT MAX(ref_key) FROM cell WHERE row_key = ? AND column_name = ?) newest)", e.key[:],
			e.kind)
	case n < 18: // delete the newest version: the next older version becomes the newest
		return w.delete(ctx, tx, e,
			"ref_key = (SELECT * FROM (SELECT MAX(ref_key) FROM cell WHERE row_key = ? AND column_name = ?) newest)", e.key[:],
			e.kind)
	case n == 18:
		return w.delete(ctx, tx, e, "TRUE")
	default:
		_, err := tx.ExecContext(ctx,
			"UPDATE cell SET body = ? WHERE row_key = ? AND column_name = ? ORDER BY ref_key DESC LIMIT 1",
			w.body(e), e.key[:], e.kind)
		return err
	}
}

func (w *Writer) newEntity() entity {
	e := entity{kind: []string{"users", "users", "companies", "schools"}[w.rand.IntN(4)]}
	for i := range e.key {
		e.key[i] = byte(w.rand.Uint32())
	}
	if w.rand.IntN(4) == 0 { // zero bytes at the end, which binlogs omit
		clear(e.key[16-1-w.rand.IntN(3):])
	}
	return e
}

// put inserts a version. late is how many nanoseconds the version is older than the current time.
func (w *Writer) put(ctx context.Context, tx *sql.Tx, e *entity, late int64) error {
	ref := max(time.Now().UnixNano(), e.newest+1) - late
	e.newest = max(e.newest, ref)
	_, err := tx.ExecContext(ctx, "INSERT IGNORE INTO cell (row_key, column_name, ref_key, body) VALUES (?, ?, ?, ?)",
		e.key[:], e.kind, ref, w.body(e))
	return err
}

func (w *Writer) delete(ctx context.Context, tx *sql.Tx, e *entity, where string, args ...any) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM cell WHERE row_key = ? AND column_name = ? AND "+where,
		append([]any{e.key[:], e.kind}, args...)...)
	return err
}

// body returns the JSON of a cell, in which every property may be missing or null.
func (w *Writer) body(e *entity) []byte {
	id := hex.EncodeToString(e.key[:])
	if w.rand.IntN(2) == 0 {
		id = id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
	}
	b := map[string]any{"id": id, "more": map[string]any{"n": w.rand.IntN(100)}}
	n := w.rand.IntN(1 << 20)
	if e.kind == "users" {
		b["username"] = fmt.Sprintf("user-%d", n)
		b["email"] = fmt.Sprintf("u%d@example.com", n)
		b["phone"] = 100000000 + n
		b["password"] = fmt.Sprintf("$2a$10$%053d", n)
		b["activate"] = w.rand.IntN(2) == 0
	} else {
		b["category"] = []string{"sports", "café", "学校", "it's \"quoted\"", `back\slash`}[w.rand.IntN(5)]
		b["domain"] = fmt.Sprintf("d%d.example.org", n)
		b["name"] = fmt.Sprintf("Name %d", n%1000)
	}
	for name := range b {
		switch w.rand.IntN(12) {
		case 0:
			delete(b, name)
		case 1:
			b[name] = nil
		}
	}
	body, err := json.Marshal(b)
	if err != nil {
		panic(err) // can't happen: JSON can encode any map of strings and numbers
	}
	return body
}
