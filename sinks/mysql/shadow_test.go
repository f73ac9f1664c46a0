package mysql_test

import (
	"errors"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A second replicator that had opened the view before is not told that the sink lost it: it would stop, or fill the
// view anew.
func TestATargetOfBeforeASwapIsOpenedAnew(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)")
		first, second := newSink(t, dsn), newSink(t, dsn)
		defer first.Close()
		defer second.Close()
		old, shadow := openTarget(t, second, counter("c")), openTarget(t, first, first.Shadow(counter("c")))
		applyAll(t, shadow, amountOp(1, 1, "Kyiv", int64(5)))
		at := replicator.Position{Order: 5, Token: "5"}
		for _, target := range []replicator.Target{old, shadow} {
			if err := target.Mark(t.Context(), replicator.Standing{Position: at}); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Swap(t.Context(), "", []*replicator.View{counter("c")}); err != nil {
			t.Fatal(err)
		}
		if err := old.Mark(t.Context(), replicator.Standing{Position: at}); err == nil || errors.Is(err, replicator.ErrSinkLost) || replicator.IsFatal(err) {
			t.Errorf("a mark by a target of before the swap: %v", err)
		}
		ops := []replicator.Op{amountOp(1, 1, "Kyiv", int64(5))}
		if _, err := old.Compare(t.Context(), ops); err == nil || replicator.IsFatal(err) {
			t.Errorf("what a target of before the swap takes for missing: %v", err)
		}
		anew := openTarget(t, second, counter("c"))
		if err := anew.Mark(t.Context(), replicator.Standing{Position: at}); err != nil {
			t.Error(err)
		}
		if differences, err := anew.Compare(t.Context(), ops); err != nil || len(differences) > 0 {
			t.Errorf("after the swap: %v, %v", differences, err)
		}
		exec(t, db, "UPDATE replicator_views SET name = NULL")
		if err := anew.Mark(t.Context(), replicator.Standing{Position: at}); !errors.Is(err, replicator.ErrSinkLost) {
			t.Errorf("a mark of a view that is gone: %v", err)
		}
	})
}
