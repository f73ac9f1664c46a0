package verify_test

import (
	"context"
	"testing"

	"replicator"
	"replicator/verify"
)

// moving is an entity of two cells, users and profile, which the sink shows as one entry, different from the source.
// The users cell never changes. The function changes returns what each check finds for the profile cell.
type moving struct {
	looks   int
	changes func(look int) (source int64, sink replicator.State)
}

type movingSource struct {
	replicator.Reader
	*moving
}

type movingSink struct {
	replicator.Target
	*moving
}

func (m movingSource) Newest(_ context.Context, cells []replicator.Cell, _ int64) (rows []*replicator.Row, asOf int64, err error) {
	m.looks++
	version, _ := m.changes(m.looks)
	for _, c := range cells {
		row := &replicator.Row{Version: 1}
		if c.Column == "profile" {
			row.Version = version
		}
		rows = append(rows, row)
	}
	return rows, 100, nil
}

func (movingSource) Cells(context.Context, string, []string, string, int) ([]replicator.Cell, string, error) {
	key, err := replicator.MakeKey(int64(1))
	return []replicator.Cell{{Table: "cell", Column: "users", Key: key}}, "", err
}

func (movingSink) Held(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

func (m movingSink) Compare(context.Context, []replicator.Op) ([]replicator.Difference, error) {
	_, state := m.changes(m.looks)
	return []replicator.Difference{{Kind: replicator.Stale, States: []replicator.State{{Version: 1, Order: 1}, state}}}, nil
}

// versions contributes a row's version.
type versions struct{}

func (versions) Evaluate(_ replicator.Cell, row *replicator.Row) []replicator.Value {
	return []replicator.Value{{Entries: []replicator.Entry{{Fields: []any{row.Version}}}}}
}

// A difference of a merged entity counts only if none of the entity's cells is changing. The cell that the difference
// names may be unchanged while another cell of the entity changes.
func TestAMergedEntityIsWrongOnlyWhileAllOfItsCellsStandStill(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes func(look int) (int64, replicator.State)
		stale   int64
	}{
		{"nothing moves", func(int) (int64, replicator.State) { return 5, replicator.State{Version: 4, Order: 4} }, 1},
		{"the source goes on", func(look int) (int64, replicator.State) {
			return int64(look), replicator.State{Version: 4, Order: 4}
		}, 0},
		{"the sink goes on", func(look int) (int64, replicator.State) {
			return 5, replicator.State{Version: 4, Order: int64(look)}
		}, 0},
	} {
		m := &moving{changes: c.changes}
		result, err := verify.Run(t.Context(), verify.Options{
			View: &replicator.View{Name: "merged", From: []replicator.Feed{{Table: "cell", Column: "users"},
				{Table: "cell", Column: "profile"}}},
			Tables: []replicator.Table{{Name: "cell", Key: []string{"k"}, Column: "column_name"}},
			Reader: movingSource{moving: m}, Target: movingSink{moving: m}, Evaluator: versions{},
		})
		if err != nil || result.Stale != c.stale {
			t.Errorf("%s: %+v, %v", c.name, result, err)
		}
	}
}
