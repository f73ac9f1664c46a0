package service

import (
	"testing"

	"replicator"
	"replicator/config"
	"replicator/internal/remedy"
)

// A command in a finding can be used without changes, because it names the views that read the table.
func TestAFindingNamesTheViewsInItsCommands(t *testing.T) {
	cfg := &config.Config{Views: []*replicator.View{
		{Name: "a", From: []replicator.Feed{{Table: "orders"}}},
		{Name: "b", From: []replicator.Feed{{Table: "items"}}, Joins: []replicator.Join{{Table: "orders"}}},
		{Name: "c", From: []replicator.Feed{{Table: "items"}}},
	}}
	const command = "`replicator rebuild " + remedy.Views + "`"
	for what, want := range map[string]string{
		"table orders": "`replicator rebuild a b`", "binlog filters": "`replicator rebuild a b c`",
	} {
		f := nameViews(cfg, replicator.Finding{What: what, Detail: command, Fix: command})
		if f.Detail != want || f.Fix != want {
			t.Errorf("%s: %+v", what, f)
		}
	}
}
