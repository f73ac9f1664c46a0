package pipeline_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"replicator"
	"replicator/canal"
	"replicator/checkpoint"
	"replicator/codec"
	"replicator/pipeline"
	"replicator/sinks/redis"
	"replicator/view"
)

// A program that maintains a hash for each user in Redis. It does the same as `replicator run` with a configuration of
// one view.
func Example() {
	tables := []replicator.Table{{
		Name: "users", Database: "app", Table: "users", Key: []string{"id"}, Body: "body",
	}}
	profile := &replicator.View{
		Name: "profile", Sink: "cache", Kind: "hash", From: []replicator.Feed{{Table: "users"}}, Key: "user:{id}",
		Fields: []replicator.Field{{Name: "email", Path: "email"}, {Name: "city", Path: "address.city"}},
	}
	profile.Fingerprint = view.Fingerprint(profile, tables)

	source, err := canal.New(canal.Config{DSN: os.Getenv("SOURCE_DSN"), Tables: tables})
	if err != nil {
		slog.Error("the source", "error", err)
		return
	}
	defer source.Close()
	sink, err := redis.New(redis.Config{Name: "cache", URLs: []string{"redis://127.0.0.1:6379"}})
	if err != nil {
		slog.Error("the sink", "error", err)
		return
	}
	defer sink.Close()
	store, err := checkpoint.OpenFile("state")
	if err != nil {
		slog.Error("the checkpoints", "error", err)
		return
	}
	defer store.Close()

	p := pipeline.New(pipeline.Config{
		Name: "cache", Source: source, Sink: sink, Views: []*replicator.View{profile}, Store: store,
		StartAt: "snapshot", OnLost: "stop",
		Compile: func(views []*replicator.View) (replicator.Evaluator, error) {
			return view.Compile(views, tables, view.Codecs{
				JSON: codec.JSON,
				Body: func(_ string, properties []string) (view.Decoder, error) {
					c, err := codec.New("json")
					if err != nil {
						return nil, err
					}
					return c.Decoder(properties), nil
				},
			})
		},
		Log: slog.Default(),
	})
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := p.Run(context.Background(), stop); err != nil {
		slog.Error("the pipeline", "error", err)
	}
}
