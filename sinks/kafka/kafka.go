package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/kafkaclient"
	"replicator/sinks/judge"
)

// Config says how to reach the Kafka cluster, and which views a sink keeps in it.
type Config struct {
	Name   string
	Access kafkaclient.Access
	Views  []*replicator.View
	Codecs map[string]string // how the bodies are encoded, by table

	Sources []string // the sources that feed the views; empty: one source without a name

	Dir string // directory for the tables of newest records; "": the system's directory for temporary files
}

// Sink keeps views in the topics of one Kafka cluster. It is safe for concurrent use.
type Sink struct {
	cfg     Config
	options []kgo.Opt
	client  *kgo.Client // for everything except transactions
	admin   *kadm.Client

	takeover time.Duration // how long the cluster may take to end another publisher's transaction

	mu      sync.Mutex
	keepers map[place]*keeper
	readers []*keeper // views opened by the method `Look`, until `Close`
}

type place struct{ source, view string }

var (
	_ replicator.Sink   = (*Sink)(nil)
	_ replicator.Looker = (*Sink)(nil)
)

// New makes a sink, without connecting. It returns an error if c is invalid.
func New(c Config) (*Sink, error) {
	options, err := c.Access.Options()
	if err == nil {
		// The client asks for partition leaders at most this often. By default, it would take 5 s to see a new leader
		// or topic.
		options = append(options, kgo.MetadataMinAge(100*time.Millisecond))
		if len(c.Sources) == 0 {
			c.Sources = []string{""}
		}
		s := &Sink{cfg: c, options: options, takeover: transactionTimeout, keepers: map[place]*keeper{}}
		if s.client, err = kgo.NewClient(append(slices.Clone(options),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err == nil {
			s.admin = kadm.NewClient(s.client)
			return s, nil
		}
	}
	return nil, fmt.Errorf("sink %s: %w", c.Name, err)
}

// Open implements replicator.Sink. It makes this process the only publisher of the views: from then on, Kafka refuses
// the writes of earlier ones. Open also reads the topics' records that this process has not read yet.
func (s *Sink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.target(ctx, source, views, s.open)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Look implements replicator.Looker. Another publisher of the views may go on writing. But when the target first
// applies a value, it makes this process the only publisher, unless this sink itself publishes the view already.
func (s *Sink) Look(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.target(ctx, source, views, s.openReader)
	if err != nil {
		return nil, err
	}
	for _, k := range t.keepers {
		t.shares = t.shares || !k.readOnly
	}
	return t, nil
}

func (s *Sink) target(ctx context.Context, source string, views []*replicator.View,
	open func(ctx context.Context, source string, v *replicator.View) (*keeper, error)) (*Target, error) {
	t := &Target{sink: s, source: source, views: slices.Clone(views)}
	marked := make([]replicator.Standing, len(views))
	var refused []error
	for i, v := range views {
		k, err := open(ctx, source, v)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		t.keepers = append(t.keepers, k)
		marked[i] = k.standing()
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	// The "" says that Kafka needs no check of the server's name: a failover to another broker loses no committed data,
	// because it is on all in-sync replicas, and only an in-sync replica becomes leader.
	t.marks = judge.NewMarks(t.views, marked, "")
	return t, nil
}

// open opens a view for writing. It reuses the table of newest records that this process had when it opened the view
// before.
func (s *Sink) open(ctx context.Context, source string, v *replicator.View) (*keeper, error) {
	topic, err := s.topic(ctx, v, source)
	if err != nil {
		return nil, err
	}
	at := place{source, v.Name}
	s.mu.Lock()
	before := s.keepers[at]
	delete(s.keepers, at)
	s.mu.Unlock()
	k := &keeper{sink: s, source: source, view: v, topic: topic}
	if before != nil {
		if err := before.close(); err != nil {
			return nil, err
		}
		if before.topic.id == topic.id {
			k.table = before.table
		} else if err := before.table.Close(); err != nil {
			return nil, err
		}
	}
	if err := k.open(ctx); err != nil {
		return nil, errors.Join(err, k.close(), k.discard())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepers[at] = k
	return k, nil
}

// openReader opens a view for reading. If this sink publishes the view, openReader returns the keeper that does so: its
// table is up to date, and Kafka would refuse its writes once the view has a second producer.
func (s *Sink) openReader(ctx context.Context, source string, v *replicator.View) (*keeper, error) {
	s.mu.Lock()
	publishes := s.keepers[place{source, v.Name}]
	s.mu.Unlock()
	if publishes != nil {
		return publishes, nil
	}
	topic, err := s.describe(ctx, topicOf(v, source))
	if err == nil {
		err = s.usable(v, topic)
	}
	if err != nil {
		return nil, err
	}
	k := &keeper{sink: s, source: source, view: v, topic: topic, readOnly: true}
	s.mu.Lock()
	s.readers = append(s.readers, k)
	s.mu.Unlock()
	return k, k.openReader(ctx)
}

// Marks implements replicator.Sink. It reads the marks topics of all configured views.
func (s *Sink) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	var marks []replicator.Mark
	for _, v := range s.cfg.Views {
		topic, err := s.describe(ctx, topicOf(v, source))
		if err != nil {
			return nil, err
		}
		if topic.marks == nil {
			continue
		}
		found, _, err := s.allMarks(ctx, topic)
		if err != nil {
			return nil, err
		}
		m, ok := found[place{source, v.Name}]
		if !ok || m.err == nil && m.mark == nil {
			if former, err := s.former(ctx, topic, source); err != nil {
				return nil, err
			} else if !former.IsZero() {
				marks = append(marks, replicator.Mark{Standing: replicator.Standing{Position: former}})
			}
			continue
		}
		mark := replicator.Mark{View: v.Name, Err: m.err}
		if m.err == nil {
			if lost, err := s.lost(ctx, topic, m.mark); err != nil {
				return nil, err
			} else if lost != nil && !replicator.SameDefinition(m.mark.Fingerprint, v.Fingerprint) {
				continue
			} else if mark.Fingerprint, mark.Standing = m.mark.Fingerprint, m.mark.Standing; lost != nil {
				mark.Lost, mark.Standing = lost, replicator.Standing{Fill: map[string]replicator.Progress{}}
			}
		}
		marks = append(marks, mark)
	}
	return marks, nil
}

// Forget implements replicator.Sink. The next Open finds no mark and treats the topic's content as unknown.
func (s *Sink) Forget(ctx context.Context, view string) error {
	i := slices.IndexFunc(s.cfg.Views, func(v *replicator.View) bool { return v.Name == view })
	if i < 0 {
		return nil // the view is no longer in the configuration, so its topic is unknown
	}
	var gone []*kgo.Record
	for _, source := range s.cfg.Sources {
		topic, err := s.describe(ctx, topicOf(s.cfg.Views[i], source))
		if err != nil {
			return err
		}
		if topic.marks == nil {
			continue
		}
		found, _, err := s.allMarks(ctx, topic)
		if err != nil {
			return err
		}
		for at := range found {
			if at.view == view {
				gone = append(gone, &kgo.Record{Topic: topic.marks.name, Key: changelog.MarkKey(at.view, at.source)})
			}
		}
	}
	if err := s.client.ProduceSync(ctx, gone...).FirstErr(); err != nil {
		return fmt.Errorf("sink %s: forgetting view %s: %w", s.cfg.Name, view, err)
	}
	return nil
}

// Close implements replicator.Sink. It closes the connections, and removes the tables of newest records from the disk.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, k := range s.keepers {
		err = errors.Join(err, k.close(), k.discard())
	}
	for _, k := range s.readers {
		err = errors.Join(err, k.close(), k.discard())
	}
	clear(s.keepers)
	s.readers = nil
	s.client.Close()
	return err
}
