package mysql

import (
	"context"
	"fmt"

	"replicator"
)

// Check checks, without changing anything, what the views need in every shard, and whether the shards' tables are
// alike.
func (s *Sharded) Check(ctx context.Context, views []*replicator.View) []replicator.Finding {
	var found []replicator.Finding
	for shard, sink := range s.shards {
		found = append(found, sink.Check(ctx, viewsIn(shard, views))...)
	}
	for _, v := range viewsIn(1, views) {
		if f := s.checkAlike(ctx, v); f != nil {
			found = append(found, *f)
		}
	}
	return found
}

// checkAlike finds differing tables of a view. It returns nil if the tables are alike, or if a table can't be read,
// which the shard's own check reports.
func (s *Sharded) checkAlike(ctx context.Context, v *replicator.View) *replicator.Finding {
	var kept []*keeper
	for _, sink := range s.shards {
		k, err := sink.keep(ctx, v, sink.origins(""))
		if err != nil {
			return nil
		}
		kept = append(kept, k)
	}
	if err := s.alike(v, kept); err != nil {
		return &replicator.Finding{What: "view " + v.Name, Level: replicator.Fail, Detail: err.Error(),
			Fix: "make the tables alike with ALTER TABLE"}
	}
	return nil
}

// Schema returns the DDL of the views' missing tables, shard by shard. A comment names the shard.
func (s *Sharded) Schema(ctx context.Context, views []*replicator.View) ([]string, error) {
	var out []string
	for shard, sink := range s.shards {
		statements, err := sink.Schema(ctx, viewsIn(shard, views))
		if err != nil {
			return nil, s.in(shard, err)
		}
		for _, statement := range statements {
			out = append(out, fmt.Sprintf("-- shard %s, database %s\n%s", s.names[shard], sink.database, statement))
		}
	}
	return out, nil
}
