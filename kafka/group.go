package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator"
	"replicator/internal/kafkaclient"
	"replicator/internal/pause"
)

// Partition identifies a partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) String() string { return name(p.Topic, p.Number) }

// GroupConfig says which group to join, and what to do when partitions come and go. The functions are called one at a
// time, and a rebalance of the group waits for the functions.
type GroupConfig struct {
	Group  string
	Topics []string

	// Identity is a hash of the sink's settings and the topics. It must be the same for all members: if two members wrote
	// to different sinks, each sink would lack the other's changes.
	Identity string

	Assigned func(partitions []Partition)
	// Revoked must apply what was read of the partitions, and save their positions. Once Revoked returns, another
	// member may read the partitions.
	Revoked func(partitions []Partition)
	// Lost is called instead of Revoked if the group has already dropped this member. Another member may already read
	// the partitions.
	Lost func(partitions []Partition)

	Session time.Duration // how long the group waits for a heartbeat; 0: Kafka's default of 45 s
}

// Group is a membership in a consumer group.
type Group struct {
	cluster *Cluster
	cfg     GroupConfig
	client  *kafkaclient.Client
	turn    chan struct{} // a lock: it holds one element while a commit runs
}

// rebalance is how long members may take to give up partitions in a rebalance.
const rebalance = time.Minute

// How long a member waits for silent brokers when it commits an offset (commitTime) and when it leaves (leaveTime).
const (
	commitTime = 2 * time.Second
	leaveTime  = 5 * time.Second
)

// newsTime is how often a member checks its topics for new partitions.
const newsTime = 30 * time.Second

// Join joins a group. The error is Fatal if the group has a member with a different Identity.
func (c *Cluster) Join(ctx context.Context, cfg GroupConfig) (*Group, error) {
	g := &Group{cluster: c, cfg: cfg, turn: make(chan struct{}, 1)}
	if err := g.check(ctx); err != nil {
		return nil, err
	}
	options := append(slices.Clip(c.options),
		kgo.ConsumerGroup(cfg.Group), kgo.ConsumeTopics(cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.RebalanceTimeout(rebalance),
		kgo.DisableAutoCommit(), kgo.ClientID(g.clientID()), kgo.MetadataMaxAge(newsTime),
		kgo.OnPartitionsAssigned(told(cfg.Assigned)), kgo.OnPartitionsRevoked(told(cfg.Revoked)),
		kgo.OnPartitionsLost(told(cfg.Lost)),
	)
	if cfg.Session > 0 {
		options = append(options, kgo.SessionTimeout(cfg.Session), kgo.HeartbeatInterval(cfg.Session/5))
	}
	var err error
	if g.client, err = kafkaclient.New(options...); err != nil {
		return nil, fmt.Errorf("kafka: group %s: %w", cfg.Group, err)
	}
	g.client.PauseFetchTopics(cfg.Topics...) // this client reads no records: each pipeline has its own client
	return g, nil
}

func told(tell func([]Partition)) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, by map[string][]int32) {
		var all []Partition
		for _, topic := range slices.Sorted(maps.Keys(by)) {
			for _, n := range by[topic] {
				all = append(all, Partition{topic, n})
			}
		}
		if len(all) > 0 {
			tell(all)
		}
	}
}

// Leave leaves the group. Before that, it calls Revoked for all of this member's partitions.
func (g *Group) Leave() {
	g.client.CloseWithin(leaveTime)
	g.turn <- struct{}{} // wait for a commit that still runs although its caller has given up
	<-g.turn
}

// Refresh makes the member check its topics for new partitions at once, instead of after newsTime. Only the group's
// leader, the member that assigns partitions, needs to know of new ones.
func (g *Group) Refresh() { g.client.ForceMetadataRefresh() }

// ours begins the client id of every group member that is a replicator.
const ours = "replicator-"

func (g *Group) clientID() string { return ours + g.cfg.Identity + "-" + MemberName() }

// MemberName returns this process's name in its groups.
func MemberName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// check returns an error if a member of the group has a different Identity or belongs to another program.
func (g *Group) check(ctx context.Context) error {
	described, err := g.cluster.describe(ctx, g.cfg.Group)
	if err != nil {
		return err
	}
	for _, m := range described.Members {
		if !strings.HasPrefix(m.ClientID, ours+g.cfg.Identity+"-") {
			return replicator.Fatal(fmt.Errorf("group %s: its member %s at %s reads other topics or writes to another "+
				"sink, so each would miss the other's changes. Choose another [source] group",
				g.cfg.Group, m.ClientID, m.ClientHost))
		}
	}
	return nil
}

// coordinatorTime is how long describe waits until a group's coordinator is available.
const coordinatorTime = 15 * time.Second

// describe asks for a group's members. A group that never existed has none. In a new cluster, the first request creates
// the topic of the groups' offsets, so describe repeats it until the group's coordinator is available.
func (c *Cluster) describe(ctx context.Context, group string) (kadm.DescribedGroup, error) {
	waiting, cancel := context.WithTimeout(ctx, coordinatorTime)
	defer cancel()
	described, err := c.ask(waiting, group)
	for errors.Is(err, kerr.CoordinatorNotAvailable) && pause.For(waiting, 100*time.Millisecond) == nil {
		described, err = c.ask(waiting, group)
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return kadm.DescribedGroup{}, fmt.Errorf("group %s: %w", group, err)
	}
	return described[group], nil
}

func (c *Cluster) ask(ctx context.Context, group string) (kadm.DescribedGroups, error) {
	described, err := answer(ctx, c, c.admin.DescribeGroups, group)
	if err == nil {
		err = described[group].Err
	}
	return described, err
}

// Commit commits a partition's offset to the group. Only monitoring tools read it: reading continues at the position
// that the sink keeps. So Commit gives up after commitTime, even while it waits for an earlier Commit to end.
func (g *Group) Commit(ctx context.Context, p Partition, at replicator.Position) error {
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	var err error
	select {
	case g.turn <- struct{}{}:
		committed := make(chan error, 1)
		go func() { // a goroutine, because the client ignores ctx while it opens a connection
			defer func() { <-g.turn }()
			committed <- g.commit(ctx, p, at.Order)
		}()
		select {
		case err = <-committed:
		case <-ctx.Done():
			err = ctx.Err()
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("group %s: committing offset %s: %w", g.cfg.Group, place(p.Topic, p.Number, at.Order), err)
	}
	return nil
}

func (g *Group) commit(ctx context.Context, p Partition, offset int64) (failed error) {
	g.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{p.Topic: {p.Number: {Epoch: -1, Offset: offset}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			failed = err
		})
	return failed
}

// Progress is a group's progress in one partition.
type Progress struct {
	Partition
	Member  string // the member that reads the partition; "": none
	Applied int64
	End     int64 // offset after the partition's last record
}

// Lag returns how many records are not applied yet.
func (p Progress) Lag() int64 { return max(p.End-p.Applied, 0) }

// Member is a member of a group.
type Member struct {
	Name       string // HOST-PID of the member's process
	Partitions []Partition
}

// GroupStatus lists the members of a consumer group, and how far the group has read each partition.
type GroupStatus struct {
	Group      string
	State      string
	Members    []Member
	Partitions []Progress
}

// Status asks the cluster for the members and the progress of a group. This process need not be a member.
func (c *Cluster) Status(ctx context.Context, group string, topics ...string) (s GroupStatus, err error) {
	s.Group = group
	d, err := c.describe(ctx, group)
	if err != nil {
		return s, err
	}
	committed, err := answer(ctx, c, func(ctx context.Context, of ...string) (kadm.OffsetResponses, error) {
		return c.admin.FetchOffsets(ctx, of[0])
	}, group)
	if err != nil {
		return s, fmt.Errorf("group %s: asking for its offsets: %w", group, err)
	}
	ends, err := answer(ctx, c, c.admin.ListCommittedOffsets, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return s, fmt.Errorf("group %s: asking for the ends of its topics: %w", group, err)
	}
	has := map[Partition]string{}
	s.State = d.State
	for _, m := range d.Members {
		member := Member{Name: memberName(m.ClientID)}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				for _, n := range t.Partitions {
					p := Partition{t.Topic, n}
					has[p] = member.Name
					member.Partitions = append(member.Partitions, p)
				}
			}
		}
		s.Members = append(s.Members, member)
	}
	for topic, partitions := range ends {
		for n, end := range partitions {
			p := Progress{Partition: Partition{topic, n}, End: end.Offset}
			p.Member = has[p.Partition]
			if at, ok := committed.Lookup(topic, n); ok {
				p.Applied = at.At
			}
			s.Partitions = append(s.Partitions, p)
		}
	}
	slices.SortFunc(s.Partitions, func(a, b Progress) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
	return s, nil
}

// memberName returns the HOST-PID in a replicator's client id. It returns another program's client id unchanged.
func memberName(clientID string) string {
	rest, is := strings.CutPrefix(clientID, ours)
	if _, after, cut := strings.Cut(rest, "-"); is && cut {
		return after
	}
	return clientID
}

// Ends returns the current end of each partition, as a fence (see Fence).
func (c *Cluster) Ends(ctx context.Context, topics ...string) (map[Partition]string, error) {
	ends, err := answer(ctx, c, c.admin.ListCommittedOffsets, topics...)
	if err == nil {
		err = ends.Error()
	}
	var details kadm.TopicDetails
	if err == nil {
		details, err = answer(ctx, c, c.admin.ListTopics, topics...)
	}
	if err != nil {
		return nil, fmt.Errorf("kafka: asking for the ends of the topics: %w", err)
	}
	all := map[Partition]string{}
	for topic, partitions := range ends {
		for n, end := range partitions {
			all[Partition{topic, n}] = place(topic, n, end.Offset) + inTopic + details[topic].ID.String()
		}
	}
	return all, nil
}
