package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/internal/changelog"
	"replicator/internal/pause"
	"replicator/kafka"
	"replicator/server"
)

// waitInGroups returns once the views have reached a log position, whichever members of the groups read the partitions.
// The fence is an offset in one partition, or a binlog position of one server. For the latter, it waits only for topics
// with cells of that server.
func (s *Service) waitInGroups(ctx context.Context, at server.Fence, views []string) error {
	if kafka.IsPlace(at.At) {
		return s.eachGroup(ctx, views, func(p kafka.Partition) string {
			if strings.HasPrefix(at.At, p.String()+":") {
				return at.At
			}
			return "" // nothing to wait for: the offset is in another partition
		})
	}
	fences, err := s.fences(ctx, at)
	if err != nil {
		return err
	}
	return s.eachGroup(ctx, views, func(p kafka.Partition) string { return fences[p.Topic] })
}

// fences converts a log position of one server or shard (at.Source) into what to wait for in each topic. Topics with
// cells of other servers get nothing to wait for. fences retries until it knows from which server each topic comes.
func (s *Service) fences(ctx context.Context, at server.Fence) (map[string]string, error) {
	for {
		fences, others, err := map[string]string{}, map[string]bool{}, error(nil)
		for _, topic := range s.Config.Source.Kafka.Topics {
			p, failed := s.cluster.Publisher(ctx, topic)
			switch {
			case replicator.IsFatal(failed) && !errors.Is(failed, kafka.ErrUnmarked):
				return nil, failed
			case failed != nil:
				err = failed
			case p.Source == at.Source:
				fences[topic] = kafka.Fence(at.Source, canal.EpochStart(p.At.Order), at.At)
			default:
				others[changelog.Origin(p.Source)] = true
			}
		}
		switch {
		case err == nil && len(fences) > 0:
			return fences, nil
		case err == nil:
			return nil, fmt.Errorf("%w: the topics in [source] have cells of %s, but not of %s. Set --source to one "+
				"of their shards, or omit it for a source without shards",
				server.ErrInvalid, strings.Join(slices.Sorted(maps.Keys(others)), " and "), changelog.Origin(at.Source))
		}
		if pause.For(ctx, 200*time.Millisecond) != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
}

// catchUpInGroups returns once views include everything that the topics contain now, no matter to which group members
// the partitions are assigned.
func (s *Service) catchUpInGroups(ctx context.Context, views []string) error {
	var topics map[kafka.Partition]string
	for topics == nil {
		found, err := s.cluster.Ends(ctx, s.Config.Source.Kafka.Topics...)
		switch {
		case err == nil:
			topics = found
		case ctx.Err() != nil:
			return errors.New("stopped before every view had caught up")
		case replicator.IsFatal(err):
			return err
		default:
			_ = pause.For(ctx, time.Second) // if ctx is done, the next round returns
		}
	}
	err := s.eachGroup(ctx, views, func(p kafka.Partition) string { return topics[p] })
	if ctx.Err() != nil {
		return errors.New("stopped before every view had caught up")
	}
	return err
}

// eachGroup waits until the views of every sink have reached the log position that fence returns for each partition. It
// waits for all consumer groups in parallel, so that the error after a timeout shows the progress of every group.
func (s *Service) eachGroup(ctx context.Context, views []string, fence func(kafka.Partition) string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	errs := make([]error, len(s.consumers))
	var waits sync.WaitGroup
	for i, c := range s.consumers {
		var wanted []string
		for _, v := range c.views {
			if len(views) == 0 || slices.Contains(views, v.Name) {
				wanted = append(wanted, v.Name)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		waits.Go(func() {
			if errs[i] = c.wait(ctx, wanted, fence); errors.Is(errs[i], canal.ErrFence) {
				end() // the position to wait for is invalid for the other groups, too
			}
		})
	}
	waits.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, canal.ErrFence) }); i >= 0 {
		return fmt.Errorf("%w: %w", server.ErrInvalid, errs[i])
	}
	return errors.Join(errs...)
}

// wait waits until the sink's views have reached the fence's position in all partitions. For partitions of this member,
// it asks the pipelines. For the others, it reads the marks (the checkpoints that the sink keeps).
func (c *consumer) wait(ctx context.Context, views []string, fence func(kafka.Partition) string) error {
	included := map[kafka.Partition]bool{}
	for {
		status, err := c.cluster.Status(ctx, c.group, c.Config.Source.Kafka.Topics...)
		if replicator.IsFatal(err) {
			return err
		}
		left := 0
		for _, p := range status.Partitions {
			if included[p.Partition] {
				continue
			}
			var unread error
			included[p.Partition], unread, err = c.includes(ctx, p.Partition, views, fence(p.Partition))
			if err != nil {
				return err
			}
			if !included[p.Partition] {
				left++
				err = cmp.Or(err, unread)
				if p.Member == "" {
					c.refresh()
				}
			}
		}
		if left == 0 && len(status.Partitions) > 0 {
			return nil
		}
		if pause.For(ctx, 100*time.Millisecond) != nil {
			err = errors.Join(err, context.Cause(ctx))
			if len(status.Partitions) == 0 {
				return fmt.Errorf("the partitions of group %s are unknown: %w", c.group, err)
			}
			return fmt.Errorf("%d partitions of group %s do not include the fence yet: %w", left, c.group, err)
		}
	}
}

// refresh makes this member look for new partitions. A new partition is assigned to a member only after some member has
// looked for new partitions.
func (c *consumer) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.member != nil {
		c.member.Refresh()
	}
}

// includes reports whether the views have reached fence, a log position in partition p. unread is an error of reading
// the sink, after which the caller tries again.
func (c *consumer) includes(ctx context.Context, p kafka.Partition, views []string, fence string) (
	included bool, unread, err error,
) {
	if fence == "" {
		return true, nil, nil // nothing to wait for: the partition is new, or the position is not for this partition
	}
	for _, l := range c.lines.all() {
		if l.sink != c.sink.Name || l.source.Name() != p.String() {
			continue
		}
		waiting, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(waiting, end)()
		go func() {
			select {
			case <-l.ended:
				end()
			case <-waiting.Done():
			}
		}()
		err := l.Wait(waiting, fence, views)
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			return false, nil, nil // this member gave up the partition during the wait
		}
		return err == nil, nil, err
	}
	return c.holds(ctx, p, views, fence)
}

// holds reports whether the views include everything up to the position `fence` in a partition. It reads the marks
// (the checkpoints that the sink keeps), because only they tell what other members of the consumer group have applied.
// The error `unread` says why the marks can't be read.
func (c *consumer) holds(ctx context.Context, p kafka.Partition, views []string, fence string) (
	holds bool, unread, err error,
) {
	marks, unread := c.opened.Marks(ctx, p.String())
	if unread != nil {
		return false, fmt.Errorf("sink %s: reading its marks: %w", c.sink.Name, unread), nil
	}
	for _, name := range views {
		v := c.Config.View(name)
		i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == name })
		if i < 0 || !replicator.SameDefinition(marks[i].Fingerprint, v.Fingerprint) {
			return false, nil, nil
		}
		m := marks[i]
		if m.Err != nil || m.Lost != nil || m.Filling() || m.Position.IsZero() {
			return false, m.Err, nil
		}
		if included, err := kafka.Includes(m.Position, fence, canal.Covers); !included || err != nil {
			return false, nil, err
		}
	}
	return true, nil, nil
}

// askTime is how long the status waits for the brokers to report on consumer groups. Brokers that are down may never
// answer.
const askTime = 2 * time.Second

// statusElsewhere returns the status of the views in partitions that this member of the consumer group doesn't read.
// `own` is the status of the views in this member's partitions. statusElsewhere sets its Member and Behind.
func (s *Service) statusElsewhere(ctx context.Context, own []replicator.ViewStatus) (others []replicator.ViewStatus) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	groups, errs := make([]kafka.GroupStatus, len(s.consumers)), make([]error, len(s.consumers))
	var asking sync.WaitGroup
	for i, c := range s.consumers {
		asking.Go(func() { groups[i], errs[i] = c.ask(ctx) })
	}
	asking.Wait()
	for i, c := range s.consumers {
		if errs[i] != nil {
			others = append(others, c.unknown(errs[i], own)...)
		}
		for _, p := range groups[i].Partitions {
			others = append(others, c.statusIn(p, own)...)
		}
	}
	return others
}

// ask asks the brokers for the status of the consumer group. It returns an error if this process has not joined the
// group.
func (c *consumer) ask(ctx context.Context) (kafka.GroupStatus, error) {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return kafka.GroupStatus{}, err
	}
	status, err := c.cluster.Status(ctx, c.group, c.Config.Source.Kafka.Topics...)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("group %s: the brokers ([source] brokers) do not answer: %w", c.group,
			context.DeadlineExceeded)
	}
	if err == nil {
		c.mu.Lock()
		c.heard = time.Now()
		c.mu.Unlock()
	}
	return status, err
}

// unknown returns the status of each view of a group that can't report its partitions. The lag is the highest that this
// process knows, or else the time since the group last answered. So the lag keeps growing while the brokers are down.
func (c *consumer) unknown(err error, own []replicator.ViewStatus) (rows []replicator.ViewStatus) {
	for _, v := range c.views {
		row := replicator.ViewStatus{View: v.Name, Sink: v.Sink, Kind: v.Kind,
			Definition: v.Fingerprint, State: stateOf(err), Error: err.Error()}
		lags := c.gone.lags(v.Name)
		for _, st := range own {
			if st.View != v.Name {
				continue
			}
			if st.LagSeconds != nil {
				lags = append(lags, *st.LagSeconds)
			}
		}
		if len(lags) == 0 {
			lags = []float64{c.silent().Seconds()}
		}
		most := slices.Max(lags)
		row.LagSeconds = &most
		rows = append(rows, row)
	}
	return rows
}

func (c *consumer) silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.heard)
}

// statusIn returns the status of the views in partition p, if this member of the consumer group doesn't read p. If this
// member reads p, `own` already has that status. statusIn then sets the fields Member and Behind in `own`.
func (c *consumer) statusIn(p kafka.Progress, own []replicator.ViewStatus) (others []replicator.ViewStatus) {
	behind := p.Lag()
	for _, v := range c.views {
		i := slices.IndexFunc(own, func(st replicator.ViewStatus) bool {
			return st.View == v.Name && st.Source == p.Partition.String()
		})
		if i >= 0 {
			own[i].Member, own[i].Behind = p.Member, &behind
			continue
		}
		st := replicator.ViewStatus{View: v.Name, Sink: v.Sink, Source: p.Partition.String(), Kind: v.Kind,
			Definition: v.Fingerprint, State: replicator.StateMember, Member: p.Member, Behind: &behind,
			Position: fmt.Sprintf("%s:%d", p.Partition, p.Applied)}
		switch p.Member {
		case "":
			st.State, st.LagSeconds = replicator.StateUnassigned, c.gone.lag(st.Source, v.Name)
		case kafka.MemberName(): // this member is opening the partition, or has just given it up
		default:
			c.gone.forget(st.Source, []*replicator.View{v})
		}
		others = append(others, st)
	}
	return others
}

func stateOf(err error) string {
	if replicator.IsFatal(err) {
		return replicator.StateFailed
	}
	return replicator.StateRetrying
}
