package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/internal/changelog"
	"replicator/internal/servers"
)

const (
	topic           = "cells"
	topicPartitions = 12
)

// kafka measures the program with Kafka and one row for each user. First, a publisher writes the rows to a topic. Then
// a member of a consumer group reads the topic and maintains hashes in Redis.
func (l *lab) kafka(ctx context.Context) (err error) {
	broker, err := l.start(ctx, servers.Kafka)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		l.leftOut = append(l.leftOut, fmt.Sprintf("kafka: %v", err))
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	store, err := l.startHashes(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	own, closing, err := l.beside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	own.cells = max(l.cells/5, 1)
	own.workload = &workload{entities: own.cells, body: l.body, begin: time.Now().UnixNano(), order: phased}
	if err := own.prepare(ctx); err != nil {
		return err
	}
	publisher := fmt.Sprintf("dsn = %q\nstart = \"earliest\"\n", own.source.DSN(sourceDatabase))
	member := fmt.Sprintf("type = \"kafka\"\nbrokers = [%q]\ntopics = [%q]\ngroup = \"bench\"\n", broker.Addr(), topic)
	for _, s := range []struct {
		stage, what     string
		from, to        *servers.Server
		source, targets string
		check           func(ctx context.Context, w *workload, n int) (int64, error)
	}{
		{"publish", "a publisher: the binlog into a topic", own.source, broker, publisher, changelogView(broker),
			topicCheck(broker)},
		{"member", "a member: the topic, its source, into a Redis hash", broker, store.server, member,
			hashSink(store.server) + hashView, store.verify},
	} {
		dir := filepath.Join(own.dir, s.stage)
		if err := configure(dir, s.source, s.targets); err != nil {
			return err
		}
		measured := *own
		measured.source, measured.sink = s.from, s.to
		took, err := measured.caughtUp(ctx, dir, s.what)
		if err != nil {
			return err
		}
		r := result{Stage: s.stage, What: s.what + ", " + thousands(int64(own.cells)) + " cells", Cells: own.cells}
		if r.Checked, err = s.check(ctx, own.workload, own.cells); err != nil {
			return fmt.Errorf("the result is wrong: %w", err)
		}
		l.add(r, took)
	}
	return nil
}

func changelogView(broker *servers.Server) string {
	return fmt.Sprintf("[sinks.log]\ntype = \"kafka\"\nbrokers = [%q]\n\n[views.cells]\nfrom = \"cell\"\nsink = \"log\"\n"+
		"kind = \"changelog\"\ntopic = %q\ncreate = true\npartitions = %d\nreplication = 1\n", broker.Addr(), topic,
		topicPartitions)
}

// topicCheck returns a check that reads the whole topic and counts its cells. Each cell's last record must be its
// newest version among the workload's first n cells, and no record may be older than an earlier record of its cell.
func topicCheck(broker *servers.Server) func(ctx context.Context, w *workload, n int) (int64, error) {
	return func(ctx context.Context, w *workload, n int) (int64, error) {
		last, err := lastRecords(ctx, broker)
		if err != nil {
			return 0, err
		}
		newest := w.present(n)
		for _, c := range newest {
			key := w.key(c.entity)
			r := last[key]
			if want := w.appendBody(nil, c); r == nil || r.Row == nil || !bytes.Equal(r.Row.Body, want) {
				return 0, fmt.Errorf("the topic's last record for %x is %+v, not %q", key, r, want)
			}
		}
		if len(last) != len(newest) {
			return 0, fmt.Errorf("the topic has %d cells for %d entities", len(last), len(newest))
		}
		return int64(len(newest)), nil
	}
}

func lastRecords(ctx context.Context, broker *servers.Server) (map[[16]byte]*changelog.Record, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	ends := map[int32]int64{}
	for partition, end := range listed[topic] {
		ends[partition] = end.Offset
	}
	last := map[[16]byte]*changelog.Record{}
	err = changelog.Read(ctx, []kgo.Opt{kgo.SeedBrokers(broker.Addr())}, topic, nil, ends,
		func(records []*kgo.Record) error {
			for _, in := range records {
				if changelog.IsMark(in) {
					continue
				}
				r, err := changelog.Decode(in)
				if err != nil {
					return err
				}
				values, err := r.Cell.Key.Values()
				if err != nil {
					return err
				}
				var key [16]byte
				text, ok := values[0].([]byte)
				if copy(key[:], text); !ok || len(text) != len(key) {
					return fmt.Errorf("the key of %v is not the key of an entity", r.Cell)
				}
				if old := last[key]; old != nil && old.State.Version > r.State.Version {
					return fmt.Errorf("%v steps back from version %d to %d", r.Cell, old.State.Version, r.State.Version)
				}
				last[key] = r
			}
			return nil
		})
	return last, err
}
