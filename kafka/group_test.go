package kafka_test

import (
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/kafka"
)

// join joins the topic's group, and waits until the member has both partitions.
func (p *publisher) join() (*kafka.Group, kafka.GroupConfig) {
	p.t.Helper()
	given := make(chan []kafka.Partition, 10)
	cfg := kafka.GroupConfig{Group: p.topic, Topics: []string{p.topic}, Identity: "one",
		Assigned: func(ps []kafka.Partition) { given <- ps },
		Revoked:  func([]kafka.Partition) {}, Lost: func([]kafka.Partition) {}}
	var g *kafka.Group
	for end := time.Now().Add(10 * time.Minute); g == nil; { // a cluster's first group has to wait for its coordinator
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
	case <-time.After(10 * time.Minute):
		p.t.Fatal("nothing is given")
	}
	return g, cfg
}

// told commits a position of partition 1, and returns the group's status after that.
func (p *publisher) told(g *kafka.Group, at replicator.Position) kafka.GroupStatus {
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
	status := p.told(g, p.oldest(p.source(1)))
	if len(status.Members) != 1 || len(status.Members[0].Partitions) != 2 || status.Partitions[1].Member == "" {
		t.Errorf("the group is %+v", status)
	}
}
