package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/internal/pause"
	"replicator/kafka"
	"replicator/pipeline"
)

// consumer reads the topics of a source in Kafka for one sink, as a member of that sink's consumer group. Each assigned
// partition has its own pipeline. The pipeline is drained and saved before another member gets the partition.
type consumer struct {
	*Service
	sink   *config.Sink
	opened replicator.Sink
	views  []*replicator.View
	tables []replicator.Table
	group  string
	log    *slog.Logger

	mu      sync.Mutex
	member  *kafka.Group // nil: this process has not joined the group
	err     error        // why this process has not joined the group
	heard   time.Time    // when the group last answered; initially when the consumer was created
	running map[kafka.Partition]*assigned
	paused  []string // views that this member pauses, also in partitions that are assigned later
}

// assigned is the pipeline of a partition that is assigned to this member.
type assigned struct {
	stop, cancel context.CancelFunc // stop drains the pipeline; cancel ends it without draining
	done         chan struct{}      // closed once the pipeline has ended
}

func (s *Service) connect() (err error) {
	s.cluster, err = s.Setup.cluster()
	return err
}

// cluster creates the client for a source in Kafka. It returns nil for other sources.
func (s Setup) cluster() (*kafka.Cluster, error) {
	from := s.Config.Source.Kafka
	if from == nil {
		return nil, nil
	}
	access, err := from.Access()
	if err != nil {
		return nil, InvalidError{fmt.Errorf("%s: [source]: %w", s.Config.File, err)}
	}
	options, err := access.Options()
	if err != nil {
		return nil, InvalidError{fmt.Errorf("%s: [source]: %w", s.Config.File, err)}
	}
	return kafka.Connect(options...)
}

func groupOf(cfg *config.Config, sink string) string { return cfg.Source.Kafka.Group + "." + sink }

func (s *Service) consume(sink *config.Sink, opened replicator.Sink, views []*replicator.View) error {
	tables, err := tablesOf(s.Config, config.Shard{}, views)
	if err != nil {
		return err
	}
	group := groupOf(s.Config, sink.Name)
	s.consumers = append(s.consumers, &consumer{
		Service: s, sink: sink, opened: opened, views: views, tables: tables, group: group,
		log: s.Log.With("group", group), running: map[kafka.Partition]*assigned{}, heard: time.Now(),
		paused: slices.Clone(s.before[group].paused),
	})
	return nil
}

// identity returns a hash of the settings that all members of the group must share: the sink's settings and the topics.
func (c *consumer) identity() string {
	text, err := json.Marshal([]any{c.sink.Name, c.sink.Type, c.sink.Settings, c.Config.Source.Kafka.Topics})
	if err != nil { // can't happen, because settings are plain data
		text = []byte(c.sink.Name + c.sink.Type)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:12]
}

// run joins the group and runs the pipelines of the assigned partitions until stop is done and the pipelines have
// drained.
func (c *consumer) run(ctx, stop context.Context) {
	member := c.join(ctx, stop)
	if member == nil {
		return
	}
	select {
	case <-stop.Done():
	case <-ctx.Done():
		c.each(func(a *assigned) { a.cancel() })
	}
	c.drain() // drain before leaving, because the group allows a leaving member little time
	member.Leave()
	c.drain() // drain partitions that were assigned during the first drain
}

func (c *consumer) drain() {
	c.each(func(a *assigned) { a.stop() })
	c.each(func(a *assigned) { <-a.done })
}

// join joins the group and retries until it succeeds. It returns nil once stop is done.
func (c *consumer) join(ctx, stop context.Context) *kafka.Group {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		member, err := c.cluster.Join(stop, kafka.GroupConfig{
			Group: c.group, Topics: c.Config.Source.Kafka.Topics, Identity: c.identity(),
			Session:  c.Config.Source.Kafka.Session,
			Assigned: func(ps []kafka.Partition) { c.assign(ctx, ps) },
			Revoked:  func(ps []kafka.Partition) { c.give(ps, func(a *assigned) { a.stop() }) },
			Lost:     func(ps []kafka.Partition) { c.give(ps, func(a *assigned) { a.cancel() }) },
		})
		c.mu.Lock()
		c.member, c.err = member, err
		c.mu.Unlock()
		if err == nil {
			return member
		}
		if stop.Err() != nil {
			return nil
		}
		if replicator.IsFatal(err) {
			wait = 30 * time.Second
		}
		c.log.Error("the consumer group can't be joined yet", "retry_in", wait, "error", err)
		if pause.For(stop, wait) != nil {
			return nil
		}
	}
}

func (c *consumer) each(do func(*assigned)) {
	c.mu.Lock()
	var all []*assigned
	for _, a := range c.running {
		all = append(all, a)
	}
	c.mu.Unlock()
	for _, a := range all {
		do(a)
	}
}

func (c *consumer) assign(ctx context.Context, partitions []kafka.Partition) {
	c.log.Info("partitions are assigned", "partitions", fmt.Sprint(partitions))
	starters := pipeline.NewStarters(len(partitions))
	for _, p := range partitions {
		ctx, cancel := context.WithCancel(ctx)
		stop, stopNow := context.WithCancel(context.Background())
		a := &assigned{stop: stopNow, cancel: cancel, done: make(chan struct{})}
		c.mu.Lock()
		c.running[p] = a
		c.mu.Unlock()
		go func() {
			defer close(a.done)
			defer cancel()
			c.keep(ctx, stop, p, starters)
		}()
	}
}

// give ends the pipelines of the given partitions: it calls end for each of them, and then waits until all have ended.
func (c *consumer) give(partitions []kafka.Partition, end func(*assigned)) {
	c.log.Info("giving up partitions", "partitions", fmt.Sprint(partitions))
	if paused := c.arePaused(); len(paused) > 0 {
		c.log.Warn("views are paused only at this member of the consumer group, and other members take these "+
			"partitions. `replicator pause` at those members pauses the views there, too",
			"views", paused, "partitions", fmt.Sprint(partitions))
	}
	var ending []*assigned
	c.mu.Lock()
	for _, p := range partitions {
		if a := c.running[p]; a != nil {
			delete(c.running, p)
			ending = append(ending, a)
		}
	}
	c.mu.Unlock()
	for _, a := range ending {
		end(a)
	}
	for _, a := range ending {
		<-a.done
	}
}

// keep runs the pipeline of a partition until stop is done.
func (c *consumer) keep(ctx, stop context.Context, p kafka.Partition, starters *pipeline.Starters) {
	log := c.log.With("source", p.String())
	var store replicator.Store
	for {
		var err error
		if store, err = c.openPart(ctx, p); err == nil {
			break
		}
		log.Warn("can't open a partition's checkpoints yet. The partition's previous member may still have them locked",
			"error", err)
		if pause.For(stop, time.Second) != nil || ctx.Err() != nil {
			return
		}
	}
	from := partition{c.cluster.Source(kafka.Config{Topic: p.Topic, Partition: p.Number, Tables: c.tables,
		Covers: canal.Covers})}
	l := c.begin(from, &committing{Store: store, consumer: c, partition: p, at: map[string]replicator.Position{}},
		stop.Done(), rereads(store), starters, log)
	c.gone.forget(p.String(), c.views)
	err := l.Run(ctx, stop)
	c.gone.remember(p.String(), l.Shown())
	c.lines.remove(l)
	if err = errors.Join(err, store.Close()); err != nil && ctx.Err() == nil {
		log.Error("a partition's pipeline ended with an error. A restart of this process starts it again", "error", err)
	}
}

// begin creates a partition's pipeline and adds it to the service's pipelines. Views that are paused at this member
// start paused.
func (c *consumer) begin(from source, store replicator.Store, ended <-chan struct{},
	reread func(context.Context) error, starters *pipeline.Starters, log *slog.Logger) line {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.line(c.sink.Name, c.opened, from, store, c.views, c.tables, c.paused, starters, log)
	l.ended, l.reread = ended, reread
	c.lines.add(l)
	return l
}

// rereads returns a function that makes the store read its dead letters again, because other processes may have added
// some. It returns nil if no other process can.
func rereads(store replicator.Store) func(context.Context) error {
	if shared, is := store.(*checkpoint.MySQL); is {
		return shared.Reread
	}
	return nil
}

// setPaused pauses or resumes a view at this member. This also applies to partitions that are assigned later.
func (c *consumer) setPaused(view string, paused bool) {
	if !slices.ContainsFunc(c.views, func(v *replicator.View) bool { return v.Name == view }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = slices.DeleteFunc(slices.Clone(c.paused), func(name string) bool { return name == view })
	if paused {
		c.paused = append(c.paused, view)
	}
}

func (c *consumer) arePaused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.paused)
}

// openPart opens the part of the checkpoint store that belongs to a partition. Only a store in MySQL has parts.
func (c *consumer) openPart(ctx context.Context, p kafka.Partition) (replicator.Store, error) {
	if c.Config.Checkpoint.Store != "mysql" {
		return borrowed{c.store}, nil
	}
	return openPart(ctx, c.Config, c.sink.Name+" "+p.String())
}

// committing is a store that also commits a partition's offset to the consumer group.
type committing struct {
	replicator.Store
	consumer  *consumer
	partition kafka.Partition

	mu sync.Mutex
	at map[string]replicator.Position // by view: the saved position
}

// Save saves checkpoints, and then commits the partition's lowest saved position as the group's offset. The offset is
// only for operators and their tools, so if the commit fails, the next save repeats it.
func (s *committing) Save(ctx context.Context, checkpoints []replicator.Checkpoint) error {
	if err := s.Store.Save(ctx, checkpoints); err != nil {
		return err
	}
	s.mu.Lock()
	for _, c := range checkpoints {
		s.at[c.View] = c.Position
	}
	var lowest replicator.Position
	for _, at := range s.at {
		if lowest.IsZero() || at.Order < lowest.Order {
			lowest = at
		}
	}
	s.mu.Unlock()
	s.consumer.mu.Lock()
	member := s.consumer.member
	s.consumer.mu.Unlock()
	if member == nil || lowest.IsZero() {
		return nil
	}
	if err := member.Commit(ctx, s.partition, lowest); err != nil {
		s.consumer.log.Debug("can't commit an offset to the group", "source", s.partition.String(), "error", err)
	}
	return nil
}

type partition struct{ *kafka.Source }

func (p partition) Stats() canal.Stats {
	s := p.Source.Stats()
	return canal.Stats{Events: s.Records, Bytes: s.Bytes, Rows: s.Changes}
}

// Retention returns Forever, because a compacted topic keeps the newest record of each key.
func (p partition) Retention(context.Context, replicator.Position) (time.Duration, error) {
	return canal.Forever, nil
}

func (p partition) CheckOffset(context.Context, string, string) error {
	return fmt.Errorf("%w: a topic is always read from its beginning. Omit --from", canal.ErrOffset)
}

// readsTables returns an error if the source is in Kafka. It is for commands that read the tables themselves.
func readsTables(cfg *config.Config, what string) error {
	if cfg.Source.Kafka == nil {
		return nil
	}
	return InvalidError{fmt.Errorf("%s: %s reads tables in MySQL or MariaDB, and the source is in Kafka. "+
		"Use the configuration that publishes the changelog", cfg.File, what)}
}

// asksTables returns an error if the source is in Kafka without a dsn. It is for commands that compare views with the
// tables.
func asksTables(cfg *config.Config, what string) error {
	if cfg.Source.Kafka == nil || len(cfg.Source.Shards) > 0 {
		return nil
	}
	return InvalidError{fmt.Errorf("%s: %s compares with tables in MySQL or MariaDB, and [source] is a changelog in "+
		"Kafka. Set dsn in [source] to the server that the changelog comes from", cfg.File, what)}
}

// setsPositions returns an error if the source is in Kafka. It is for commands that set positions: the members of
// consumer groups own the positions of partitions.
func setsPositions(cfg *config.Config, what string) error {
	if cfg.Source.Kafka == nil {
		return nil
	}
	return InvalidError{fmt.Errorf("%s: the command checkpoint %s can't change positions in Kafka partitions. To "+
		"fill views again, use `replicator rebuild`. To remove what the program knows of views, use `replicator "+
		"checkpoint forget`", cfg.File, what)}
}
