package favorites

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync/atomic"
)

// Writer favorites as users do, and as administrators do afterwards: counts that grow in place, favorites taken back,
// objects and users that go with all their favorites, favorites moved from one object to another, imports of large
// counts. One object is everybody's favorite.
type Writer struct {
	db             *sql.DB
	rand           *rand.Rand
	users, objects int

	written atomic.Int64
}

// Hot is the object that everybody favorites.
const Hot = 1

// NewWriter makes a writer; two writers of one database need different seeds.
func NewWriter(db *sql.DB, seed uint64, users, objects int) *Writer {
	return &Writer{db: db, rand: rand.New(rand.NewPCG(seed, 0)), users: users, objects: objects}
}

// Written is how many statements were committed. It may be called while the writer works.
func (w *Writer) Written() int64 { return w.written.Load() }

// Step commits one transaction. An error leaves the database as it was, or as after the transaction.
func (w *Writer) Step(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	n := 1 + w.rand.IntN(4)
	for range n {
		statement, args := w.change()
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	if w.rand.IntN(40) == 0 {
		return nil // changed its mind: rolled back
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
	case n < 65: // a favorite that counts for nothing, and one that counts for much
		return "REPLACE INTO favorite (object_id, user_id, cnt, timestamp) VALUES (?, ?, ?, NULL)", []any{object, user,
			w.rand.IntN(2) * 1_000_000}
	case n < 72:
		return "UPDATE favorite SET cnt = cnt - 1 WHERE object_id = ? AND user_id = ? AND cnt > 0", []any{object, user}
	case n < 88:
		return "DELETE FROM favorite WHERE object_id = ? AND user_id = ?", []any{object, user}
	case n < 94: // moved to another object, in another partition: the row's key changes
		return "UPDATE IGNORE favorite SET object_id = ? WHERE object_id = ? AND user_id = ?", []any{1 +
			w.rand.IntN(w.objects), object, user}
	case n < 97: // an object goes
		if object == Hot {
			object++
		}
		return "DELETE FROM favorite WHERE object_id = ?", []any{object}
	default: // a user goes
		return "DELETE FROM favorite WHERE user_id = ?", []any{user}
	}
}
