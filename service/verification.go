package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
	"replicator/config"
	"replicator/internal/human"
	"replicator/server"
	"replicator/verify"
)

// fenceTime is how long a verification waits until a view includes the latest commits.
const fenceTime = time.Minute

// Verification compares views with the source. A running process may keep the views up to date at the same time.
type Verification struct {
	Setup
	Sample   float64 // the share of entities to compare; 0: all entities
	Rate     int     // the maximum number of cells to compare a second; 0: no limit
	Repair   bool
	Listed   int // the maximum number of differences in each view's result; 0: twenty of each shard
	Progress func(view string, at verify.Progress)
	Say      func(text string) // tells the operator facts that explain the results
}

// Run verifies views one after the other. If a view can't be verified, Run still returns the results of the other
// views, with an error. Once ctx is done, it returns no results.
func (v Verification) Run(ctx context.Context, names []string) (results []verify.Result, failed error) {
	if err := asksTables(v.Config, "verify"); err != nil {
		return nil, err
	}
	if v.Say == nil {
		v.Say = func(string) {}
	}
	if err := Client(v.Config).Alive(ctx); errors.Is(err, server.ErrNotRunning) {
		v.Say(Stopped(ctx, v.Config, err).Error())
	}
	in := v.inspector()
	defer func() { failed = errors.Join(failed, in.close()) }()
	for _, name := range names {
		total, err := v.shards(ctx, in, v.Config.View(name))
		if ctx.Err() != nil || errors.Is(err, server.ErrStandby) { // all further views would have the same error
			return nil, err
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		results = append(results, total)
	}
	return results, failed
}

func (v Verification) shards(ctx context.Context, in *inspector,
	view *replicator.View) (total verify.Result, err error) {
	for i, shard := range v.Config.Source.Shards {
		r, err := v.shard(ctx, in, shard, view)
		if err != nil {
			return total, err
		}
		if i == 0 {
			total = r
			continue
		}
		total.Checked += r.Checked
		total.Missing += r.Missing
		total.Stale += r.Stale
		total.Extra += r.Extra
		total.Dead += r.Dead
		total.Repaired += r.Repaired
		total.Newer += r.Newer
		total.Differences = append(total.Differences, r.Differences...)
	}
	total.Differences = total.Differences[:min(len(total.Differences), cmp.Or(v.Listed, len(total.Differences)))]
	return total, nil
}

func (v Verification) shard(ctx context.Context, in *inspector, shard config.Shard,
	view *replicator.View) (result verify.Result, err error) {
	o, err := in.inspect(ctx, shard, view)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if v.Repair {
		if err := o.mayRepair(); err != nil {
			return result, err
		}
	}
	fence, err := v.fence(ctx, o)
	if err == nil && fence == nil {
		err = v.sayBehind(ctx, o)
	}
	if err != nil {
		return result, err
	}
	return verify.Run(ctx, verify.Options{
		View: o.view, Tables: o.tables, Reader: o.reader, Target: o.target, Evaluator: o.evaluator,
		Listed: v.Listed, Sample: v.Sample, Rate: v.Rate, Repair: v.Repair, Fence: fence, Shard: numberOf(v.Config, shard),
		Bury:     func(ctx context.Context, letters []replicator.DeadLetter) error { return v.bury(ctx, o, letters) },
		Raise:    betweenShards(v.Config, v.raise),
		Together: func(ctx context.Context) (*verify.Together, error) { return v.together(ctx, in, shard, view) },
		Buried:   v.buried(o),
		Progress: func(at verify.Progress) { v.Progress(view.Name, at) },
	})
}

// fence returns a function that waits until the running process has applied the latest commits. It returns nil if no
// process keeps the view up to date. If the process is a standby, the error wraps server.ErrStandby, because the view's
// progress is unknown.
func (v Verification) fence(ctx context.Context, o *inspection) (func(context.Context) error, error) {
	c := Client(v.Config)
	running, err := c.Status(ctx)
	i := slices.IndexFunc(running, func(s replicator.ViewStatus) bool { return s.View == o.view.Name })
	switch {
	case errors.Is(err, server.ErrNotRunning) || err == nil && i < 0: // the running process may lack this view
		return nil, nil
	case err == nil && running[i].State == replicator.StateStandby:
		return nil, standingBy(running[i].Error)
	case err == nil && running[i].State == replicator.StatePaused:
		return func(context.Context) error {
			return fmt.Errorf("the view differs from the source and can't catch up: %w", replicator.ErrPaused)
		}, nil
	}
	return func(ctx context.Context) error {
		at, err := o.source.Latest(ctx, nil)
		if err != nil {
			return err
		}
		pos, _ := Place(at)
		views := []string{o.view.Name}
		return doOrSay(ctx, views, v.ofSource(o.source.Name()), func(ctx context.Context) error {
			return c.Wait(ctx, server.Fence{At: pos, Source: o.source.Name()}, views, fenceTime)
		})
	}, nil
}

// sayBehind shows how far a view is behind its source. It is for a view that no process keeps up to date, where later
// commits count as differences.
func (v Verification) sayBehind(ctx context.Context, o *inspection) error {
	saved, err := Checkpoints(ctx, v.Config)
	if err != nil {
		return nil // if the checkpoints can't be read, only this report is missing
	}
	i := slices.IndexFunc(saved, func(c replicator.Checkpoint) bool {
		return c.View == o.view.Name && c.Source == o.source.Name()
	})
	if i < 0 || saved[i].Position.IsZero() {
		return nil
	}
	latest, err := o.source.Latest(ctx, nil)
	if err != nil {
		return err
	}
	at, _ := Place(saved[i].Position)
	end, _ := Place(latest)
	switch shown := saved[i].Shown; {
	case at == end:
		v.Say(fmt.Sprintf("view %s includes everything that was committed (%s)", o.view.Name, at))
	case shown.IsZero():
		v.Say(fmt.Sprintf("view %s is at %s, its source at %s. The view lacks the commits in between", o.view.Name,
			at, end))
	default:
		v.Say(fmt.Sprintf("view %s is at %s, its source at %s. The view lacks the commits of the last %s", o.view.Name,
			at, end, human.Duration(time.Since(shown))))
	}
	return nil
}

// together opens a view for a repair, and with it the other views of the sink that the repair must also write. These
// are the views that a running process keeps up to date, or else those that stopped at the same position.
func (v Verification) together(
	ctx context.Context, in *inspector, shard config.Shard, view *replicator.View,
) (*verify.Together, error) {
	running, err := v.ofSource(shard.Name)(ctx)
	isSibling := keptUp(running)
	switch {
	case err != nil && !errors.Is(err, server.ErrNotRunning):
		return nil, err
	case !slices.ContainsFunc(running, func(s replicator.ViewStatus) bool { return s.View == view.Name }):
		isSibling = func(sibling, repaired replicator.Mark) bool {
			return sibling.Position.Order == repaired.Position.Order
		}
	}
	return in.together(ctx, shard, view, isSibling)
}

// ofSource returns a function that asks the running process for the status of its views with the given source. The
// status with other sources is left out, because an outage of another source doesn't matter here.
func (v Verification) ofSource(source string) func(context.Context) ([]replicator.ViewStatus, error) {
	return func(ctx context.Context) ([]replicator.ViewStatus, error) {
		views, err := Client(v.Config).Status(ctx)
		return slices.DeleteFunc(views, func(s replicator.ViewStatus) bool { return s.Source != source }), err
	}
}
