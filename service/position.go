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

// Place formats a position for display: FILE:POS, and the GTIDs if the position has them.
func Place(p replicator.Position) (pos, gtid string) {
	if pos, ok := kafka.Describe(p.Token); ok {
		return pos, ""
	}
	pos, gtid, _ = strings.Cut(canal.Describe(p.Token), " ")
	return pos, gtid
}

// latest returns the current end of the source's log, as text that Wait accepts. It retries until the source answers.
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

// inShard returns ", source NAME" for a message; "" if the source has no shards.
func inShard(source replicator.Source) string {
	if source.Name() == "" {
		return ""
	}
	return ", source " + source.Name()
}

func numberOf(cfg *config.Config, shard config.Shard) int {
	return slices.IndexFunc(cfg.Source.Shards, func(s config.Shard) bool { return s.Name == shard.Name })
}

// KnowsSource returns nil if the source has the named shard. An empty name is valid only if the source has no shards.
func KnowsSource(cfg *config.Config, name string) error {
	if cfg.Source.Kafka != nil {
		return nil // with Kafka, the topics name the sources, and no topic is read here
	}
	var names []string
	for _, s := range cfg.Source.Shards {
		names = append(names, s.Name)
	}
	switch {
	case slices.Contains(names, name):
		return nil
	case name == "":
		return fmt.Errorf("the source has the shards %s. Select one, as in --source %s",
			strings.Join(names, ", "), names[0])
	case names[0] == "":
		return fmt.Errorf("the source has no shards. Omit --source %s", name)
	}
	return fmt.Errorf("the source has no shard %s. It has %s", name, strings.Join(names, ", "))
}

// IsFence returns nil if the text has the form of a log position that Wait accepts. It doesn't ask a server.
func IsFence(cfg *config.Config, at string) error {
	if cfg.Source.Kafka != nil && kafka.IsPlace(at) {
		return nil
	}
	return canal.IsFence(at)
}
