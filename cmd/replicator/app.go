package main

import (
	"fmt"
	"log/slog"

	"replicator"
	"replicator/config"
	"replicator/service"
	"replicator/sinks/mysql"
	"replicator/sinks/redis"
	"replicator/view"
)

// openSink makes a sink of its configured type.
func openSink(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	switch sink.Type {
	case "mysql":
		return openMySQL(cfg, sink, log)
	case "redis":
		return openRedis(cfg, sink, log)
	case "elastic":
		return openElastic(cfg, sink, log)
	}
	return nil, usageError{fmt.Errorf("%s: sink %s: this version keeps no views in sinks of type %q", cfg.File, sink.Name, sink.Type)}
}

// openMySQL makes a MySQL sink: one of several shards if there are several.
func openMySQL(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	c := mysql.Config{Name: sink.Name, Tables: cfg.Tables, Logger: log, Columns: sourceColumns(cfg, log), Timeout: sink.Timeout}
	if len(sink.Shards) == 1 {
		c.DSN = sink.Shards[0].DSN.Reveal()
		return mysql.New(c)
	}
	var shards []mysql.Shard
	for _, s := range sink.Shards {
		shards = append(shards, mysql.Shard{Name: s.Name, DSN: s.DSN.Reveal()})
	}
	return mysql.NewSharded(c, shards, service.ViewsOf(cfg, sink.Name))
}

// openRedis makes a Redis sink.
func openRedis(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	c := redisConfig(sink, log)
	var err error
	if c.Names, err = view.NewNames(service.ViewsOf(cfg, sink.Name), cfg.Tables); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", cfg.File, err)}
	}
	return redis.New(c)
}

func redisConfig(sink *config.Sink, log *slog.Logger) redis.Config {
	c := redis.Config{Name: sink.Name, Cluster: sink.Cluster, Sentinel: sink.Sentinel, Username: sink.Username, Password: sink.Password.Reveal(),
		CACert: sink.TLS.CACert, Cert: sink.TLS.Cert, Key: sink.TLS.Key, ServerName: sink.TLS.ServerName, Timeout: sink.Timeout, Logger: log}
	for _, u := range sink.URLs {
		c.URLs = append(c.URLs, u.Reveal())
	}
	return c
}
