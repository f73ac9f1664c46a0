package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/internal/pause"
	"replicator/kafka"
	"replicator/server"
)

// waitInGroups returns once views include a fence of the origin's, whoever keeps them.
func (s *Service) waitInGroups(ctx context.Context, fence string, views []string) error {
	return s.eachGroup(ctx, views, func(kafka.Partition) string { return fence })
}

// catchUpInGroups returns once views include all that the topics hold now, whoever keeps them.
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
			_ = pause.For(ctx, time.Second) // ctx is looked at next
		}
	}
	err := s.eachGroup(ctx, views, func(p kafka.Partition) string { return topics[p] })
	if ctx.Err() != nil {
		return errors.New("stopped before every view had caught up")
	}
	return err
}

// eachGroup waits until the views of each sink include, with every partition, what a fence names. All groups are asked
// at a time: where one takes all the time that there is, the others know how far theirs is.
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
				end() // it is none for the others either
			}
		})
	}
	waits.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, canal.ErrFence) }); i >= 0 {
		return fmt.Errorf("%w: %w", server.ErrInvalid, errs[i])
	}
	return errors.Join(errs...)
}

// wait waits for views of the sink. What this member keeps it asks its pipelines for; of the rest the group is told.
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
			if included[p.Partition], err = c.includes(ctx, p, views, fence(p.Partition)); err != nil {
				return err
			}
			if !included[p.Partition] {
				left++
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
				return fmt.Errorf("the partitions of group %s are not known: %w", c.group, err)
			}
			return fmt.Errorf("%d partitions of group %s are not applied so far yet: %w", left, c.group, err)
		}
	}
}

// refresh has the member look for partitions that were added: nobody has them before one did.
func (c *consumer) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.member != nil {
		c.member.Refresh()
	}
}

// includes reports whether views include a fence with one partition.
func (c *consumer) includes(ctx context.Context, p kafka.Progress, views []string, fence string) (bool, error) {
	for _, l := range c.lines.all() {
		if l.sink != c.sink.Name || l.source.Name() != p.Partition.String() {
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
			return false, nil // it was given up meanwhile
		}
		return err == nil, err
	}
	if fence == "" {
		return true, nil // the partition is new: nothing of it was asked for
	}
	return p.Includes(fence, canal.Covers)
}

// askTime is how long groups may take to say how they are, as they do not where the brokers are silent: whoever asks
// for the status, which other things fill, too, is not to wait for that.
const askTime = 2 * time.Second

// elsewhere are the partitions that other members of the groups keep, or nobody does, with what the groups know of
// them. It completes the rows of this member's own. All groups are asked at a time.
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

// ask asks how the group is. It is an error, too, that this process is no member of it.
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

// unknown are rows of views whose group can't say which partitions there are, with what this member knows by itself.
// In an outage of the brokers it is given up by the group, sooner or later, and the lag is to grow on.
func (c *consumer) unknown(err error, own []replicator.ViewStatus) (rows []replicator.ViewStatus) {
	for _, v := range c.views {
		row := replicator.ViewStatus{View: v.Name, Sink: v.Sink, Kind: v.Kind,
			Definition: v.Fingerprint, State: stateOf(err), Error: err.Error()}
		lags := c.gone.lags(v.Name)
		for _, st := range own {
			if st.View != v.Name {
				continue
			}
			row.Verified = st.Verified // the view's own, whatever the group says
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

// silent is for how long nothing was heard of the group.
func (c *consumer) silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.heard)
}

// rows are those of a partition that this member does not keep.
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
		case kafka.MemberName(): // the group has not noticed yet that it was given up, or it is being opened
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
