package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// Wait returns nil once each of the named views (all, if none is named) is filled and includes the fence: a GTID set or
// FILE:POS of this pipeline's source. If a view has failed, Wait returns its error.
func (p *Pipeline) Wait(ctx context.Context, fence string, views []string) error {
	if len(views) == 0 {
		for _, v := range p.Views {
			views = append(views, v.Name)
		}
	}
	for _, name := range views {
		err := p.waitFor(ctx, fence, name)
		if err != nil && ctx.Err() != nil { // ctx ended, so err may be the error of an interrupted query
			err = context.Cause(ctx)
			if p.stopped.isPaused(p.cfg.view(name)) { // checked only now: the operator may pause or resume at any time
				err = replicator.ErrPaused
			}
			return fmt.Errorf("view %s does not include %s yet: %w", name, fence, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitFor returns nil once a view is filled and includes the fence. If ctx ends first, it returns an error.
func (p *Pipeline) waitFor(ctx context.Context, fence, view string) error {
	if included, err := p.includedAtPause(ctx, fence, view); included || err != nil {
		return err
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if included, err := p.includes(ctx, fence, view); included || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// includedAtPause reports whether a view is paused and included the fence when it was paused. It reads the checkpoint,
// because a paused view has no run.
func (p *Pipeline) includedAtPause(ctx context.Context, fence, view string) (bool, error) {
	v := p.cfg.view(view)
	if v == nil || !p.stopped.isPaused(v) {
		return false, nil
	}
	saved, err := p.cfg.Store.Checkpoints(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the checkpoints: %w", err)
	}
	i := slices.IndexFunc(saved, func(c replicator.Checkpoint) bool {
		return c.View == view && c.Source == p.cfg.Source.Name() && !c.Filling()
	})
	if i < 0 {
		return false, nil
	}
	at := saved[i].Position
	reader, err := p.cfg.Source.Open(ctx, []replicator.Position{at}, replicator.TablesOf([]*replicator.View{v})...)
	if err != nil {
		return false, err
	}
	included, err := reader.Includes(ctx, at, fence)
	return included, errors.Join(err, reader.Close())
}

func (p *Pipeline) includes(ctx context.Context, fence, view string) (bool, error) {
	r, s, err := p.sessionOf(view)
	if r == nil || err != nil {
		return false, err
	}
	if state, err := r.trouble(); state == replicator.StateFailed {
		return false, fmt.Errorf("view %s has failed: %w", view, err)
	}
	if s == nil || r.progress.current().Filling() || !r.notes.lettersKnown(view) || !s.reach.heard.Load() {
		return false, nil
	}
	if err := s.saver.advance(ctx, saveNothing); err != nil {
		return false, err
	}
	included, err := s.reader.Includes(ctx, r.progress.current().Position, fence)
	if included && err == nil {
		err = s.refresh(ctx)
	}
	return included && err == nil, err
}

// Renew replaces the sessions of views by new ones, and returns when these are open. The sink then reads the
// definitions of its tables or indexes again, so call Renew after a manual ALTER.
func (p *Pipeline) Renew(ctx context.Context, views ...string) error {
	opened := map[*session]bool{}
	for _, view := range views {
		s, err := p.renew(ctx, view, opened)
		if err != nil {
			return err
		}
		opened[s] = true
	}
	return nil
}

// renew ends the view's session, and returns the session that replaces it. If the view's session is in `opened`, renew
// returns it unchanged: Renew has replaced it already, for another view.
func (p *Pipeline) renew(ctx context.Context, view string, opened map[*session]bool) (*session, error) {
	var old *session
	for {
		r, s, err := p.sessionOf(view)
		if err != nil {
			return nil, err
		}
		switch {
		case s != nil && opened[s]:
			return s, nil
		case s == nil && old == nil:
			return nil, fmt.Errorf("view %s: %w", view, replicator.ErrNotServing)
		case s != nil && old == nil:
			old = s
			s.renew()
		case s != nil && s != old:
			return s, nil
		case r != nil:
			if state, err := r.trouble(); state == replicator.StateFailed {
				return nil, fmt.Errorf("view %s has failed: %w", view, err)
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Look re-reads cells from the source, and replaces their contributions to the view. It returns once the result is
// durable. The error wraps ErrNotServing if the view has no session, or its session ends before the result is durable.
func (p *Pipeline) Look(ctx context.Context, view string, cells []replicator.Cell) error {
	_, s, err := p.sessionOf(view)
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("view %s: %w", view, replicator.ErrNotServing)
	}
	if err := s.intake.look(ctx, cells); err != nil {
		return fmt.Errorf("view %s: re-reading cells: %w", view, err)
	}
	return nil
}
