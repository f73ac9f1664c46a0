package servers_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestKafkaKeepsWhatItAcknowledgedThroughAKill(t *testing.T) {
	broker := servertest.Own(t, servers.Kafka)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.DefaultProduceTopic("things"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "things")
	if err != nil || topics.Err != nil {
		t.Fatal(err, topics.Err)
	}
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("one")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(broker.Kill(), broker.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{"things": {0: kgo.NewOffset().AtStart()}})
	fetches := client.PollFetches(t.Context())
	if err := fetches.Err(); err != nil || fetches.NumRecords() != 1 || string(fetches.Records()[0].Value) != "one" {
		t.Errorf("after the kill it has %d records: %v", fetches.NumRecords(), err)
	}
}
