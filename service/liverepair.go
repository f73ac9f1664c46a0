package service

import (
	"context"
	"errors"
	"fmt"

	"replicator"
	"replicator/config"
	"replicator/verify"
)

// liveRepair compares a view of a running pipeline with its source and repairs it. It opens its own connections, so
// that the pipeline doesn't wait for it. If the sink allows only one writer, as Kafka does, it uses the pipeline's
// sink.
type liveRepair struct {
	*Service
	line line
	view *replicator.View
}

// run compares the view with its source, at most at the `rate` of [rebuild]. It begins at the place in `from`, and
// stores there the place where it stops. It returns verify.ErrNotNow if the view stops running.
func (r liveRepair) run(ctx context.Context, from *verify.Place) (verify.Result, error) {
	if err := r.mayGoOn(); err != nil {
		return verify.Result{}, err
	}
	result, err := r.compare(ctx, from)
	if err != nil {
		if notNow := r.mayGoOn(); notNow != nil {
			err = notNow // the view stopped running, which caused err
		}
	}
	return result, err
}

func (r liveRepair) compare(ctx context.Context, from *verify.Place) (result verify.Result, err error) {
	in := r.inspector()
	defer func() { err = errors.Join(err, in.close()) }()
	if _, alone := r.line.opened.(replicator.Looker); alone {
		in.lent = map[string]replicator.Sink{r.line.sink: r.line.opened}
	}
	o, err := in.inspect(ctx, r.shard(), r.view)
	if err != nil && !errors.As(err, new(errUnopened)) { // an errUnopened already names the view
		err = fmt.Errorf("view %s: %w", r.view.Name, err)
	}
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if err := o.mayRepair(); err != nil {
		return result, err
	}
	return verify.Run(ctx, verify.Options{
		View: o.view, Tables: o.tables, Reader: o.reader, Target: o.target, Evaluator: o.evaluator,
		Rate: r.Config.Rebuild.Rate, Repair: true, Shard: numberOf(r.Config, r.shard()),
		Bury: func(ctx context.Context, letters []replicator.DeadLetter) error {
			return r.line.lookAt(ctx, letters[0].View, cellsOfLetters(letters))
		},
		Raise: betweenShards(r.Config, r.Look),
		Buried: func(ctx context.Context, cell replicator.Cell) (bool, error) {
			letter, err := r.store.Known(ctx, r.view.Name, r.line.source.Name(), cell)
			return letter != 0, err
		},
		Together: func(ctx context.Context) (*verify.Together, error) {
			return in.together(ctx, r.shard(), r.view, keptUp(r.line.Status(nil)))
		},
		Continue: r.mayGoOn, Resume: from,
		Fence: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, fenceTime)
			defer cancel()
			fence, err := latest(ctx, o.source)
			if err == nil {
				err = r.line.Wait(ctx, fence, []string{r.view.Name})
			}
			return err
		},
	})
}

func (r liveRepair) shard() config.Shard {
	for _, s := range r.Config.Source.Shards {
		if s.Name == r.line.source.Name() {
			return s
		}
	}
	panic("the pipeline's source is not in the configuration")
}

// mayGoOn returns an error unless the view is running. While a view is filled or rebuilt, differences may be temporary,
// and a paused view must not change.
func (r liveRepair) mayGoOn() error {
	for _, s := range r.line.Status(nil) {
		if s.View == r.view.Name && s.State != replicator.StateRunning {
			return fmt.Errorf("view %s: %w: the view is %s", r.view.Name, verify.ErrNotNow, s.State)
		}
	}
	return nil
}
