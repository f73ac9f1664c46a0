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

// waitInGroups returns once views include a fence, no matter to which group members the partitions are assigned. The
// fence is an offset in one partition, or a log position of one origin. An origin is a server (or a shard) whose cells
// a topic has. Topics can have different origins. waitInGroups doesn't wait for topics of other origins, because these
// origins don't know the fence's files or GTIDs.
func (s *Service) waitInGroups(ctx context.Context, at server.Fence, views []string) error {
	if kafka.IsPlace(at.At) {
		return s.eachGroup(ctx, views, func(p kafka.Partition) string {
			if strings.HasPrefix(at.At, p.String()+":") {
				return at.At
			}
			return "" // the fence is an offset in another partition
		})
	}
	fences, err := s.fences(ctx, at)
	if err != nil {
		return err
	}
	return s.eachGroup(ctx, views, func(p kafka.Partition) string { return fences[p.Topic] })
}

// fences returns, by topic, the fence that corresponds to a position of an origin (see waitInGroups). Topics of other
// origins have none. It waits until the origin of every topic is known.
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
			return nil, fmt.Errorf("%w: [source] topics have cells of %s, but not of %s. Select one with --source",
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
			_ = pause.For(ctx, time.Second) // the loop checks ctx next
		}
	}
	err := s.eachGroup(ctx, views, func(p kafka.Partition) string { return topics[p] })
	if ctx.Err() != nil {
		return errors.New("stopped before every view had caught up")
	}
	return err
}

// eachGroup waits until the views of every sink include the fence in all partitions. It asks all groups at the same
// time. So even if one group uses the whole timeout, the error shows the progress of the other groups.
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
				end() // the fence is invalid for the other groups, too
			}
		})
	}
	waits.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, canal.ErrFence) }); i >= 0 {
		return fmt.Errorf("%w: %w", server.ErrInvalid, errs[i])
	}
	return errors.Join(errs...)
}

// wait waits until the sink's views include the fence in all partitions. For partitions that are assigned to this
// member, it asks the pipelines. For the other partitions, it reads the sink's marks.
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

// includes reports whether views include a fence in one partition. unread is the error if the sink can't be read; the
// caller then tries again.
func (c *consumer) includes(ctx context.Context, p kafka.Partition, views []string, fence string) (
	included bool, unread, err error,
) {
	if fence == "" {
		return true, nil, nil // the partition is new, or the fence is not for this partition
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

// holds reports whether the sink's marks show that views include a fence in a partition. Only the marks tell this
// process what other members have applied.
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

// askTime is the timeout for the groups' reports. Brokers that are down may never answer, and the status must not wait
// for them.
const askTime = 2 * time.Second

// elsewhere returns the status of the views in the partitions that are not assigned to this member. own has the status
// of the views in this member's partitions. elsewhere sets Member and Behind in own. It asks all groups at the same
// time.
func (s *Service) elsewhere(ctx context.Context, own []replicator.ViewStatus) (others []replicator.ViewStatus) {
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
			others = append(others, c.rows(p, own)...)
		}
	}
	return others
}

// ask returns the group's status. It returns an error if this process has not joined the group.
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

// unknown returns a row for each view of a group that can't report its partitions. The row's lag is the view's highest
// lag that this process knows. If it knows none, the lag is the time since the group last answered. During an outage of
// the brokers the group removes this process, but the lag must keep growing.
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

// rows returns the status of the views in a partition that is not assigned to this member. own has the status of the
// views in this member's partitions. If own has the partition p, rows only sets Member and Behind there.
func (c *consumer) rows(p kafka.Progress, own []replicator.ViewStatus) (others []replicator.ViewStatus) {
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
