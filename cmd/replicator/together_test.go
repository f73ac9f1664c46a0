package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"replicator/internal/servers/servertest"
)

// disagreeing counts rows without their index entry and index entries without their row, in one snapshot.
const disagreeing = `SELECT (SELECT COUNT(*) FROM users LEFT JOIN index_users_email i ON row_key = id AND i.email = users.email
	WHERE users.email IS NOT NULL AND row_key IS NULL) + (SELECT COUNT(*) FROM index_users_email i LEFT JOIN users ON id = row_key
	AND users.email = i.email WHERE id IS NULL)`

// A reader of one database never sees a row and its index disagree, while one of the two views is rebuilt repeatedly.
func TestARebuiltIndexAndItsRowNeverDisagree(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	p := l.fillLab(2000)
	ctx, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { writeEmails(ctx, t, l.db) })
	var seen agreement
	others.Go(func() { seen.watch(ctx, t, l.db) })
	l.must("rebuild", "index_users_email")
	l.must("rebuild", "users")
	l.must("rebuild", "users", "index_users_email")
	end()
	others.Wait()
	if seen.disagreed > 0 || seen.polls < 10 {
		t.Errorf("%d of %d polls saw index and row disagree, in up to %d entries", seen.disagreed, seen.polls, seen.most)
	}
	l.rebuilt(2000)
	p.stop()
}

// writeEmails changes users' addresses some hundred times a second until ctx is done. The first user's address contains
// the time.
func writeEmails(ctx context.Context, t *testing.T, db *sql.DB) {
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		user, email := i*7919%2000, fmt.Sprintf("%d@y.org", i)
		if i%2 == 0 {
			user, email = 0, strconv.FormatInt(time.Now().UnixNano(), 10)
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO cell (row_key, column_name, ref_key, body) VALUES "+
			"(UNHEX(LPAD(HEX(?), 32, '0')), 'users', ?, ?)", user, i+2, fmt.Sprintf(`{"username": "u", "email": %q}`, email),
		); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		ease(ctx, i, time.Since(began))
	}
}

// agreement counts how often a reader polled and how often the views disagreed.
type agreement struct{ polls, disagreed, most int }

// watch polls the two views until ctx is done.
func (a *agreement) watch(ctx context.Context, t *testing.T, db *sql.DB) {
	for ctx.Err() == nil {
		began := time.Now()
		var n int
		err := db.QueryRowContext(ctx, disagreeing).Scan(&n)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			t.Error(err)
		}
		if a.polls++; n > 0 {
			a.disagreed, a.most = a.disagreed+1, max(a.most, n)
		}
		ease(ctx, 0, time.Since(began))
	}
}
