package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"replicator"
	"replicator/config"
	"replicator/internal/human"
)

// sayBeginnings logs the position where the views of each sink continue, and how far this position is behind the
// source, according to the checkpoints in the store. If a sink lost data, its pipeline starts earlier and logs that.
func (r *Runner) sayBeginnings(ctx context.Context, cfg *config.Config) error {
	if cfg.Source.Kafka != nil { // which partitions this process continues with is unknown until the group assigns them
		return nil
	}
	saved, err := r.store.Checkpoints(ctx)
	if err != nil {
		return err
	}
	for i := range cfg.Sinks {
		for _, shard := range cfg.Source.Shards {
			r.sayBeginning(cfg, cfg.Sinks[i].Name, shard.Name, saved)
		}
	}
	return nil
}

func (r *Runner) sayBeginning(cfg *config.Config, sink, source string, saved []replicator.Checkpoint) {
	var lowest *replicator.Checkpoint
	var known, unknown []string
	for _, v := range ViewsOf(cfg, sink) {
		i := slices.IndexFunc(saved, func(c replicator.Checkpoint) bool {
			return c.View == v.Name && c.Source == source && !c.Position.IsZero()
		})
		if i < 0 {
			unknown = append(unknown, v.Name)
			continue
		}
		known = append(known, v.Name)
		if lowest == nil || saved[i].Position.Order < lowest.Position.Order {
			lowest = &saved[i]
		}
	}
	log := r.Log.With("sink", sink)
	if source != "" {
		log = log.With("source", source)
	}
	if lowest != nil {
		at, _ := Place(lowest.Position)
		behind := "unknown"
		if !lowest.Shown.IsZero() {
			behind = human.Duration(time.Since(lowest.Shown))
		}
		log.Info("views continue from their checkpoints", "views", known, "position", at, "behind", behind)
	}
	if len(unknown) > 0 {
		log.Info("views start for the first time", "views", unknown, "start", cfg.Source.Start)
	}
}

func (r *Runner) sayLetters(ctx context.Context, cfg *config.Config) error {
	counts, err := r.store.Count(ctx)
	if err != nil {
		return err
	}
	for _, view := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[view]; n > 0 && cfg.View(view) != nil {
			r.Log.Warn("the view has dead letters. `replicator deadletters list --view "+view+"` shows why",
				"view", view, "dead_letters", n)
		}
	}
	return nil
}
