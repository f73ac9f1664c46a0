package main

import (
	"fmt"
	"log/slog"

	"replicator"
	"replicator/config"
	"replicator/service"
	"replicator/sinks/elastic"
	"replicator/view"
)

// openElastic makes an Elasticsearch sink.
func openElastic(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	views := service.ViewsOf(cfg, sink.Name)
	entities, err := view.Entities(views, cfg.Tables)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", cfg.File, err)}
	}
	var sources []string
	for _, shard := range cfg.Source.Shards {
		sources = append(sources, shard.Name)
	}
	s, err := elastic.New(elastic.Config{
		Name: sink.Name, Addresses: sink.Addresses, Username: sink.Username, Password: sink.Password.Reveal(), APIKey: sink.APIKey.Reveal(),
		TLS:    elastic.TLS{CACert: sink.TLS.CACert, Cert: sink.TLS.Cert, Key: sink.TLS.Key, ServerName: sink.TLS.ServerName},
		Tables: cfg.Tables, Views: views, Sources: sources, DocumentID: entities, Logger: log,
		Timeout: sink.Timeout,
	})
	if err != nil {
		return nil, err
	}
	if len(sources) > 1 {
		return s, nil
	}
	return elastic.Shadowing{Sink: s}, nil
}
