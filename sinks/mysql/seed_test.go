package mysql_test

import (
	"fmt"
	"sync"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The seed's tables hold its users. They are as in the seed, but for the prefix that TEXT needs in a key. A reader
// finds, at any moment and by each index, the row that has the value.
func TestSeedTablesNeverDisagree(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, seedDDL...)
		sink := newSink(t, dsn)
		target := openTarget(t, sink, seedViews...)
		const cells, rounds = 200, 25
		var wg sync.WaitGroup
		done := make(chan struct{})
		wg.Go(func() {
			defer close(done)
			for round := range rounds {
				var ops []replicator.Op
				for n := range cells {
					op := seedOp(n, int64(round+1), fmt.Sprintf("user%d.%d@example.com", n, round%3))
					if (n+round)%11 == 0 {
						op.Version, op.AsOf = replicator.NoVersion, op.Order // gone for a round
						for i := range op.Values {
							op.Values[i].Entries = nil
						}
					}
					ops = append(ops, op)
				}
				if a, err := target.Apply(t.Context(), ops); err != nil || len(a.Rejected)+len(a.Stale) > 0 {
					t.Errorf("Apply: %+v, %v", a, err)
					return
				}
			}
		})
		looks := 0
		for running := true; running; looks++ {
			select {
			case <-done:
				running = false
			default:
			}
			var lost, wrong int
			err := db.QueryRow(`SELECT COUNT(*) - COUNT(e.row_key) + COUNT(*) - COUNT(p.row_key), (SELECT COUNT(*) FROM index_users_email) - COUNT(*) FROM users u
				LEFT JOIN index_users_email e ON e.row_key = u.id AND e.email = u.email LEFT JOIN index_users_password p ON p.row_key = u.id AND p.password = u.password`).Scan(&lost, &wrong)
			if err != nil {
				t.Fatal(err)
			}
			if lost != 0 || wrong != 0 {
				t.Fatalf("look %d: %d rows that an index doesn't find, %d entries too many", looks, lost, wrong)
			}
		}
		wg.Wait()
		if n := count(t, db, "users"); n == 0 || n == cells || looks < 2 {
			t.Errorf("%d rows after %d looks", n, looks)
		}
	})
}
