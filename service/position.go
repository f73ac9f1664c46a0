package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/internal/pause"
	"replicator/kafka"
)

// Place shows a position to a person: FILE:POS, and the GTIDs if there are any.
func Place(p replicator.Position) (pos, gtid string) {
	if pos, ok := kafka.Describe(p.Token); ok {
		return pos, ""
	}
	pos, gtid, _ = strings.Cut(canal.Describe(p.Token), " ")
	return pos, gtid
}

// latest is the fence of all that is committed at a source now. It tries until the source answers.
func latest(ctx context.Context, s replicator.Source) (string, error) {
	for {
		at, err := s.Latest(ctx, nil)
		if err == nil {
			fence, _ := Place(at)
			return fence, nil
		}
		if replicator.IsFatal(err) {
			return "", err
		}
		if err := pause.For(ctx, time.Second); err != nil {
			return "", err
		}
	}
}

// inShard names a source, where it is one of several.
func inShard(source replicator.Source) string {
	if source.Name() == "" {
		return ""
	}
	return ", source " + source.Name()
}

// numberOf is a shard's place in the source.
func numberOf(cfg *config.Config, shard config.Shard) int {
	return slices.IndexFunc(cfg.Source.Shards, func(s config.Shard) bool { return s.Name == shard.Name })
}

// KnowsSource is nil if the source has that shard, or no shards where none is named: a place in a binlog is one
// server's.
func KnowsSource(cfg *config.Config, name string) error {
	if cfg.Source.Kafka != nil {
		return nil // the publisher's: its marks name them
	}
	var names []string
	for _, s := range cfg.Source.Shards {
		names = append(names, s.Name)
	}
	switch {
	case slices.Contains(names, name):
		return nil
	case name == "":
		return fmt.Errorf("the source has the shards %s: name the one you mean, as in --source %s",
			strings.Join(names, ", "), names[0])
	case names[0] == "":
		return fmt.Errorf("the source has no shards: leave out --source %s", name)
	}
	return fmt.Errorf("the source has no shard %s; it has %s", name, strings.Join(names, ", "))
}

// IsFence is nil if a text can be a place in the source's log by its form, which nobody needs to be asked for.
func IsFence(cfg *config.Config, at string) error {
	if cfg.Source.Kafka != nil && kafka.IsPlace(at) {
		return nil
	}
	return canal.IsFence(at)
}
