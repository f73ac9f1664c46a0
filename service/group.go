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

// waitInGroups returns once views include a place in the log of an origin, whoever keeps them. Of topics of several
// origins it is the place of one: the others don't know its files or GTIDs, and are not waited for.
func (s *Service) waitInGroups(ctx context.Context, at server.Fence, views []string) error {
	if kafka.IsPlace(at.At) {
		return s.eachGroup(ctx, views, func(p kafka.Partition) string {
			if strings.HasPrefix(at.At, p.String()+":") {
				return at.At
			}
			return "" // nothing of it was asked for
		})
	}
	fences, err := s.fences(ctx, at)
	if err != nil {
		return err
	}
	return s.eachGroup(ctx, views, func(p kafka.Partition) string { return fences[p.Topic] })
}

// fences are what to wait for with each topic, for a place of an origin. It waits until all topics say whose they are.
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
			return nil, fmt.Errorf("%w: [source] topics tell of %s, and not of %s: name one with --source", server.ErrInvalid,
				strings.Join(slices.Sorted(maps.Keys(others)), " and "), changelog.Origin(at.Source))
		}
		if pause.For(ctx, 200*time.Millisecond) != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
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

// wait waits for views of the sink. What this member keeps it asks its pipelines for; of the rest the sink knows.
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
				return fmt.Errorf("the partitions of group %s are not known: %w", c.group, err)
			}
			return fmt.Errorf("%d partitions of group %s have not been applied up to there yet: %w", left, c.group, err)
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

// includes reports whether views include a fence with one partition. unread is why the sink could not be asked.
func (c *consumer) includes(ctx context.Context, p kafka.Partition, views []string, fence string) (
	included bool, unread, err error,
) {
	if fence == "" {
		return true, nil, nil // it is of another origin, or new: nothing of it was asked for
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
			return false, nil, nil // it was given up meanwhile
		}
		return err == nil, nil, err
	}
	return c.holds(ctx, p, views, fence)
}

// holds reports whether the sink holds what a fence names of views, with a partition: what its marks say is all that is
// known of what other members applied.
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
