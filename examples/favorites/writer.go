package favorites

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync/atomic"
)

// Writer changes favorites as users and administrators do. Counts grow, favorites are removed or move to another
// object, large counts are imported, and objects and users are deleted with all their favorites.
type Writer struct {
	db             *sql.DB
	rand           *rand.Rand
	users, objects int

	written atomic.Int64
}

// Hot is the id of an object that many changes concern.
const Hot = 1

// NewWriter returns a writer. Two writers of one database need different seeds.
func NewWriter(db *sql.DB, seed uint64, users, objects int) *Writer {
	return &Writer{db: db, rand: rand.New(rand.NewPCG(seed, 0)), users: users, objects: objects}
}

// Written returns how many statements were committed. It may be called while the writer works.
func (w *Writer) Written() int64 { return w.written.Load() }

// Step commits one transaction. After an error, the transaction is either complete or not in the database at all.
func (w *Writer) Step(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	n := 1 + w.rand.IntN(4)
	for range n {
		statement, args := w.change()
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	if w.rand.IntN(40) == 0 {
		return nil // the user changes their mind: roll back
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.written.Add(int64(n))
	return nil
}

func (w *Writer) change() (statement string, args []any) {
	object, user := 1+w.rand.IntN(w.objects), 1+w.rand.IntN(w.users)
	if w.rand.IntN(4) == 0 {
		object = Hot
	}
	switch n := w.rand.IntN(100); {
	case n < 55:
		return "INSERT INTO favorite (object_id, user_id, cnt, timestamp) VALUES (?, ?, 1, NOW()) ON DUPLICATE KEY UPDATE cnt = cnt + 1, timestamp = NOW()",
			[]any{object, user}
	case n < 65: // favorites with a count of zero or a large count
		return "REPLACE INTO favorite (object_id, user_id, cnt, timestamp) VALUES (?, ?, ?, NULL)", []any{object, user,
			w.rand.IntN(2) * 1_000_000}
	case n < 72:
		return "UPDATE favorite SET cnt = cnt - 1 WHERE object_id = ? AND user_id = ? AND cnt > 0", []any{object, user}
	case n < 88:
		return "DELETE FROM favorite WHERE object_id = ? AND user_id = ?", []any{object, user}
	case n < 94: // a favorite moves to another object, in another partition: the row's key changes
		return "UPDATE IGNORE favorite SET object_id = ? WHERE object_id = ? AND user_id = ?", []any{1 +
			w.rand.IntN(w.objects), object, user}
	case n < 97:
		if object == Hot {
			object++
		}
		return "DELETE FROM favorite WHERE object_id = ?", []any{object}
	default:
		return "DELETE FROM favorite WHERE user_id = ?", []any{user}
	}
}
