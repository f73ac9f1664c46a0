package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/internal/changelog"
	"replicator/internal/servers"
)

// topicEnds are the ends of a topic's partitions.
func topicEnds(ctx context.Context, broker *servers.Server, topic string) (map[int32]int64, error) {
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
	for p, o := range listed[topic] {
		ends[p] = o.Offset
	}
	return ends, nil
}

// checkTopic reads a changelog from its first record to its last: of each cell the last one must be the newest of the
// first n of the workload, and none may be older than the one before it. It returns how many cells there are.
func checkTopic(ctx context.Context, broker *servers.Server, topic string, w *workload, n int) (int, error) {
	ends, err := topicEnds(ctx, broker, topic)
	if err != nil {
		return 0, err
	}
	last := map[string]*changelog.Record{}
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
				if old := last[string(in.Key)]; old != nil && old.State.Version > r.State.Version {
					return fmt.Errorf("%v steps back from version %d to %d", r.Cell, old.State.Version, r.State.Version)
				}
				last[string(in.Key)] = r
			}
			return nil
		})
	if err != nil {
		return 0, err
	}
	bodies := map[string][]byte{}
	for _, r := range last {
		values, err := r.Cell.Key.Values()
		if err != nil || r.Row == nil {
			return 0, errors.Join(fmt.Errorf("%v has no row", r.Cell), err)
		}
		key, ok := values[0].([]byte)
		if !ok {
			return 0, fmt.Errorf("%v has a key of another type", r.Cell)
		}
		bodies[string(key)] = r.Row.Body
	}
	newest := w.present(n)
	for _, c := range newest {
		key := w.key(c.entity)
		if want := w.appendBody(nil, c); !bytes.Equal(bodies[string(key[:])], want) {
			return 0, fmt.Errorf("of %x the topic says %q, not %q", key, bodies[string(key[:])], want)
		}
	}
	if len(bodies) != len(newest) {
		return 0, fmt.Errorf("the topic has %d cells of %d entities", len(bodies), len(newest))
	}
	return len(newest), nil
}
