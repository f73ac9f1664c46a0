package kafka_test

import (
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/kafka"
)

// join makes a member of the topic's group, which has been given both partitions.
func (p *publisher) join() (*kafka.Group, kafka.GroupConfig) {
	p.t.Helper()
	given := make(chan []kafka.Partition, 10)
	cfg := kafka.GroupConfig{Group: p.topic, Topics: []string{p.topic}, Identity: "one",
		Assigned: func(ps []kafka.Partition) { given <- ps },
		Revoked:  func([]kafka.Partition) {}, Lost: func([]kafka.Partition) {}}
	var g *kafka.Group
	for end := time.Now().Add(30 * time.Second); g == nil; { // a cluster's first group has no coordinator at once
		var err error
		if g, err = p.cluster.Join(p.t.Context(), cfg); err != nil && time.Now().After(end) {
			p.t.Fatal(err)
		}
	}
	p.t.Cleanup(g.Leave)
	select {
	case ps := <-given:
		if len(ps) != 2 {
			p.t.Errorf("given are %v", ps)
		}
	case <-time.After(30 * time.Second):
		p.t.Fatal("nothing is given")
	}
	return g, cfg
}

// told commits how far partition 1 is applied, and returns what the group then says.
func (p *publisher) told(g *kafka.Group, at replicator.Standing) kafka.GroupStatus {
	p.t.Helper()
	if err := g.Commit(p.t.Context(), kafka.Partition{Topic: p.topic, Number: 1}, at); err != nil {
		p.t.Fatal(err)
	}
	status, err := p.cluster.Status(p.t.Context(), p.topic, p.topic)
	if err != nil || len(status.Partitions) != 2 {
		p.t.Fatalf("the group is %+v: %v", status, err)
	}
	return status
}

func TestAGroupOfAnotherConfigurationIsNotJoined(t *testing.T) {
	p := publish(t, 2, nil)
	g, cfg := p.join()
	cfg.Identity = "two"
	if _, err := p.cluster.Join(t.Context(), cfg); !replicator.IsFatal(err) ||
		!strings.Contains(err.Error(), "another sink") {
		t.Errorf("joining as another configuration: %v", err)
	}
	status := p.told(g, replicator.Standing{Position: p.oldest(p.source(1))})
	if len(status.Members) != 1 || len(status.Members[0].Partitions) != 2 || status.Partitions[1].Member == "" {
		t.Errorf("the group is %+v", status)
	}
}

// A fill has more to do once it has read all: what was deleted before is taken away then.
func TestAGroupIncludesNothingOfAPartitionThatIsBeingFilled(t *testing.T) {
	p := publish(t, 2, nil)
	g, _ := p.join()
	at, err := p.source(1).Latest(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := kafka.Describe(at.Token)
	for _, c := range []struct {
		what     string
		fill     map[string]replicator.Progress
		included bool
	}{
		{"filling", map[string]replicator.Progress{"cell": {Done: true}}, false},
		{"filled", nil, true},
		{"being filled anew", map[string]replicator.Progress{}, false},
	} {
		status := p.told(g, replicator.Standing{Position: at, Fill: c.fill})
		if included, err := status.Partitions[1].Includes(end, nil); included != c.included || err != nil {
			t.Errorf("%s: included is %v (%v)", c.what, included, err)
		}
		if lag := status.Partitions[1].Lag(); lag != 0 {
			t.Errorf("%s: the lag is %d", c.what, lag)
		}
	}
}
