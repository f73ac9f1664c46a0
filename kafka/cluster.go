package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Cluster is a connection to a Kafka cluster. Several goroutines may use it.
type Cluster struct {
	options []kgo.Opt
	client  *kgo.Client
	admin   *kadm.Client
	asking  sync.WaitGroup // all running requests, even if the caller has stopped waiting
}

// Connect makes a Cluster from the options for all its connections: brokers, TLS, SASL. It opens no connection yet.
func Connect(options ...kgo.Opt) (*Cluster, error) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &Cluster{options: options, client: client, admin: kadm.NewClient(client)}, nil
}

// Close closes the connections. Close the cluster's sources and groups first.
func (c *Cluster) Close() {
	c.client.Close()
	c.asking.Wait()
}

// answer calls ask, but returns an error as soon as ctx is done. The Kafka client ignores ctx while it opens a
// connection, which may take 20 s if a broker is silent.
func answer[T any](ctx context.Context, c *Cluster,
	ask func(ctx context.Context, of ...string) (T, error), of ...string) (T, error) {
	type said struct {
		what T
		err  error
	}
	answers := make(chan said, 1)
	c.asking.Go(func() {
		what, err := ask(ctx, of...)
		answers <- said{what, err}
	})
	select {
	case a := <-answers:
		return a.what, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Topic holds the properties of a topic that its readers depend on.
type Topic struct {
	Name       string
	ID         string // changes if the topic is deleted and created again
	Partitions int

	Compacted  bool          // compaction keeps the newest record of every key
	Deletes    bool          // cleanup.policy includes delete, so that Kafka removes old records of any key
	Tombstones time.Duration // how long Kafka keeps a tombstone, the record that deletes a key
}

var errNoTopic = errors.New("it does not exist")

// Topic asks the cluster for the properties of a topic. The error is Fatal if the topic does not exist.
func (c *Cluster) Topic(ctx context.Context, name string) (Topic, error) {
	t := Topic{Name: name}
	details, err := answer(ctx, c, c.admin.ListTopics, name)
	if err != nil {
		return t, fmt.Errorf("topic %s: %w", name, err)
	}
	d := details[name]
	switch {
	case errors.Is(d.Err, kerr.UnknownTopicOrPartition) || d.Topic == "":
		return t, replicator.Fatal(fmt.Errorf("topic %s: %w. Start its publisher (a sink of type kafka), or "+
			"correct [source] topics", name, errNoTopic))
	case d.Err != nil:
		return t, fmt.Errorf("topic %s: %w", name, d.Err)
	}
	t.ID, t.Partitions = d.ID.String(), len(d.Partitions)
	configs, err := answer(ctx, c, c.admin.DescribeTopicConfigs, name)
	if err == nil {
		_, err = configs.On(name, nil)
	}
	if err != nil {
		return t, fmt.Errorf("topic %s: asking for its settings: %w", name, err)
	}
	config, _ := configs.On(name, nil)
	for _, c := range config.Configs {
		switch value := c.MaybeValue(); c.Key {
		case "cleanup.policy":
			t.Compacted, t.Deletes = strings.Contains(value, "compact"), strings.Contains(value, "delete")
		case "delete.retention.ms":
			ms, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return t, fmt.Errorf("topic %s: its delete.retention.ms is not a number: %q", name, value)
			}
			t.Tombstones = time.Duration(ms) * time.Millisecond
		}
	}
	return t, config.Err
}

// ends are a partition's first offset, and the offset after its last committed record.
type ends struct{ first, next int64 }

func (c *Cluster) ends(ctx context.Context, topic string, partition int32) (e ends, err error) {
	first, err := answer(ctx, c, c.admin.ListStartOffsets, topic)
	if err == nil {
		e.first, err = offsetOf(first, topic, partition)
	}
	if err == nil {
		e.next, err = c.end(ctx, topic, partition)
	}
	return e, err
}

// end returns the offset after a partition's last committed record.
func (c *Cluster) end(ctx context.Context, topic string, partition int32) (int64, error) {
	next, err := answer(ctx, c, c.admin.ListCommittedOffsets, topic)
	if err != nil {
		return 0, fmt.Errorf("topic %s: asking for its end: %w", topic, err)
	}
	return offsetOf(next, topic, partition)
}

func offsetOf(listed kadm.ListedOffsets, topic string, partition int32) (int64, error) {
	o, ok := listed.Lookup(topic, partition)
	switch {
	case !ok:
		return 0, replicator.Fatal(fmt.Errorf("topic %s has no partition %d", topic, partition))
	case o.Err != nil:
		return 0, fmt.Errorf("topic %s, partition %d: asking for its end: %w", topic, partition, o.Err)
	}
	return o.Offset, nil
}
