package service

import (
	"context"
	"errors"
	"fmt"

	"replicator"
	"replicator/config"
	"replicator/verify"
)

// newRounds makes the verifications that [verify] asks for, or a person.
func (s *Service) newRounds() *verify.Rounds {
	r := &verify.Rounds{Every: s.Config.Verify.Every, Observer: s.metrics, Log: s.Log}
	for _, l := range s.lines.all() {
		for _, v := range l.views {
			t := watch{Service: s, line: l, view: s.Config.View(v.Name), settings: s.Config.Verify}
			r.Views = append(r.Views, verify.Turn{View: v.Name, Source: l.source.Name(), Verify: t.verify})
		}
	}
	return r
}

// watch verifies a view of a pipeline that runs. It has connections of its own for that, so that it holds up nothing.
type watch struct {
	*Service
	line     line
	view     *replicator.View
	settings config.Verify // but for Every
}

// verify verifies the view while its state allows it.
func (w watch) verify(ctx context.Context, resume *verify.Place) (verify.Result, error) {
	if err := w.mayGoOn(); err != nil {
		return verify.Result{}, err
	}
	result, err := w.run(ctx, resume)
	if err != nil {
		if notNow := w.mayGoOn(); notNow != nil {
			err = notNow // whatever failed, that is why
		}
	}
	return result, err
}

func (w watch) run(ctx context.Context, resume *verify.Place) (result verify.Result, err error) {
	in := w.inspector()
	defer func() { err = errors.Join(err, in.close()) }()
	o, err := in.inspect(ctx, w.shard(), w.view)
	if err != nil && !errors.As(err, new(errUnopened)) { // that names the view
		err = fmt.Errorf("view %s: %w", w.view.Name, err)
	}
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if w.settings.Repair {
		if err := o.mayRepair(); err != nil {
			return result, err
		}
	}
	return verify.Run(ctx, verify.Options{
		View: o.view, Tables: o.tables, Reader: o.reader, Target: o.target, Evaluator: o.evaluator,
		Sample: w.settings.Sample, Rate: w.settings.Rate, Repair: w.settings.Repair, Shard: numberOf(w.Config, w.shard()),
		Bury: func(ctx context.Context, letters []replicator.DeadLetter) error {
			return w.line.lookAt(ctx, letters[0].View, cellsOfLetters(letters))
		},
		Together: func(ctx context.Context) (*verify.Together, error) {
			return in.together(ctx, w.shard(), w.view, keptUp(w.line.Status(nil)))
		},
		Continue: w.mayGoOn, Resume: resume, Observer: w.metrics,
		Fence: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, fenceTime)
			defer cancel()
			fence, err := latest(ctx, o.source)
			if err == nil {
				err = w.line.Wait(ctx, fence, []string{w.view.Name})
			}
			return err
		},
	})
}

// shard is the configured one that the pipeline reads.
func (w watch) shard() config.Shard {
	for _, s := range w.Config.Source.Shards {
		if s.Name == w.line.source.Name() {
			return s
		}
	}
	panic("a pipeline's source is one of the configuration's")
}

// mayGoOn is nil while the view is kept up: one that is being filled, rebuilt or mended holds what it must not hold for
// good, and one that is paused is left alone.
func (w watch) mayGoOn() error {
	for _, s := range w.line.Status(nil) {
		if s.View == w.view.Name && s.State != replicator.StateRunning {
			return fmt.Errorf("view %s: %w: it is %s", w.view.Name, verify.ErrNotNow, s.State)
		}
	}
	return nil
}
