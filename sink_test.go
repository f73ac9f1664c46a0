package replicator_test

import (
	"testing"

	"replicator"
	"replicator/sinks/sinktest"
)

// The conformance suite for sinks passes. It skips the steps for optional interfaces that this sink does not have.
func TestTheSinkOfTheExampleKeepsTheContract(t *testing.T) {
	sink := &memory{cells: map[place]kept{}, marks: map[fed]replicator.Mark{}}
	sinktest.Run(t, sinktest.Subject{
		Tables: []replicator.Table{{Name: "user", Key: []string{"id"}}},
		Views: []*replicator.View{{
			Name: "users", Kind: "row", From: []replicator.Feed{{Table: "user"}},
			Fields: []replicator.Field{{Name: "email", Path: "email"}}, Fingerprint: "1",
		}},
		New: func(testing.TB) replicator.Sink { return sink },
		Read: func(_ testing.TB, v *replicator.View) map[string]string {
			sink.mu.Lock()
			defer sink.mu.Unlock()
			rows := map[string]string{}
			for p, k := range sink.cells {
				if p.view == v.Name && len(k.entries) > 0 {
					rows[p.cell.Key.String()] = sinktest.RowText(v, k.entries[0].Fields)
				}
			}
			return rows
		},
		Histories: 100,
	})
}
