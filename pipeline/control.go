package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"replicator"
)

// Status returns the status of every view of the pipeline, in their order. deadLetters are the store's counts.
func (p *Pipeline) Status(deadLetters map[string]int) []replicator.ViewStatus {
	p.mu.Lock()
	runs, failed, starting := slices.Clone(p.runs), maps.Clone(p.failed), p.err
	p.mu.Unlock()
	all := make([]replicator.ViewStatus, 0, len(p.Views))
	for _, v := range p.Views {
		st := replicator.ViewStatus{View: v.Name, Sink: v.Sink, Source: p.Source.Name(), Kind: v.Kind, State: replicator.StateStarting,
			DeadLetters: deadLetters[v.Name]}
		p.mu.Lock()
		stopped, paused := p.paused[v.Name]
		st.Definition = v.Fingerprint
		p.mu.Unlock()
		if err := failed[v.Name]; err != nil {
			st.State, st.Error = stateBy(err), err.Error()
		}
		if starting != nil {
			st.State, st.Error = stateBy(starting), starting.Error()
		}
		var filling time.Time // since when
		for _, r := range runs {
			if i := slices.Index(r.views, v); i >= 0 {
				filling = r.describe(i, &st)
			}
		}
		if b := p.rebuildOf(v); b != nil {
			p.describe(b, &st)
			filling = time.Time{} // what it holds is kept up, or is what an earlier fill came to
		}
		if paused {
			st.State, st.Applied = replicator.StatePaused, stopped.Position
		}
		if st.ReadLag == nil {
			st.ReadLag = p.lagSince(v, st.State)
		}
		if st.LagSeconds = st.ReadLag; !filling.IsZero() { // it lacks what was committed before, too
			st.LagSeconds = secondsSince(filling)
		}
		all = append(all, st)
	}
	return all
}

func secondsSince(at time.Time) *float64 {
	seconds := max(0, time.Since(at).Seconds())
	return &seconds
}

// stateBy is the state of a view that does not run because of an error.
func stateBy(err error) string {
	if replicator.IsFatal(err) {
		return replicator.StateFailed
	}
	return replicator.StateRetrying
}

// remember notes up to when the views of a session showed everything, as it ends: while there is no other one, or it
// has heard nothing yet, their lag is counted from there.
func (p *Pipeline) remember(s *session) {
	at, _, known := s.shown()
	if !known {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == nil {
		p.shown = map[string]time.Time{}
	}
	for _, v := range s.run.views {
		p.shown[v.Name] = at
	}
}

// lagSince is the lag of a view that no session tells of: how long ago it was known to show everything. Of one that
// never was since the start, and has no session, it is at least what has passed since then; nil if it may show all.
func (p *Pipeline) lagSince(v *replicator.View, state string) *float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.shown[v.Name]
	switch {
	case known:
		return secondsSince(at)
	case state == replicator.StateRunning, state == replicator.StateRebuilding, p.began.IsZero():
		return nil
	}
	return secondsSince(p.began)
}

// describe fills in what the run knows of its i-th view, and returns since when the view is being filled; zero: it is
// filled. Epochs are made of the clock, and never go back.
func (r *run) describe(i int, st *replicator.ViewStatus) (filling time.Time) {
	s := r.current()
	if s != nil {
		if lag, known := s.lag(); known {
			seconds := lag.Seconds()
			st.ReadLag = &seconds
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st.State, st.Applied = r.state, r.now.Position
	if r.err != nil {
		st.Error = r.err.Error()
	}
	if s != nil {
		st.Position, st.Rate = s.reader.Locate(r.now.Position.Order), r.rate(i)
	}
	if saved := r.savedAt.Load(); saved != 0 {
		st.Checkpoint = time.Since(time.Unix(0, saved)).Seconds()
	}
	r.progressOf(st)
	if r.now.Filling() {
		filling = time.UnixMicro(r.now.Epoch)
	}
	return filling
}

// describe says of a view that it is being rebuilt, and how far that is.
func (p *Pipeline) describe(b *rebuild, st *replicator.ViewStatus) {
	st.State, st.Error = replicator.StateRebuilding, "" // why the live view doesn't run is being mended
	p.mu.Lock()
	r, err := b.run, b.err
	p.mu.Unlock()
	if err != nil { // the live view is kept up
		st.State, st.Error = stateBy(err), err.Error()
	}
	if r == nil {
		return // it is about to begin
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil && err == nil {
		if st.Error = r.err.Error(); replicator.IsFatal(r.err) {
			st.State = replicator.StateFailed
		}
	}
	r.progressOf(st)
}

// progressOf fills in how far the run's fill is. The caller holds r.mu.
func (r *run) progressOf(st *replicator.ViewStatus) {
	var rows, total int64
	for _, p := range r.now.Fill {
		rows, total = rows+p.Rows, total+p.Total
	}
	st.FilledRows = rows
	if total > 0 {
		st.Progress = min(1, float64(rows)/float64(total))
	}
}

// Wait returns nil once each of the named views (all, if none is named) is filled and includes what the fence names: a
// GTID set or FILE:POS of this pipeline's source. A view that has failed ends the wait with its error.
func (p *Pipeline) Wait(ctx context.Context, fence string, views []string) error {
	if len(views) == 0 {
		for _, v := range p.Views {
			views = append(views, v.Name)
		}
	}
	for _, name := range views {
		for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
			included, err := p.includes(ctx, fence, name)
			if err != nil {
				return err
			}
			if included {
				break
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return fmt.Errorf("view %s does not include %s yet: %w", name, fence, context.Cause(ctx))
			}
		}
	}
	return nil
}

// includes reports whether a view is filled and includes the fence.
func (p *Pipeline) includes(ctx context.Context, fence, view string) (bool, error) {
	r, err := p.runOf(view)
	if r == nil || err != nil {
		return false, err
	}
	r.mu.Lock()
	s, failed, filling, state := r.session, r.err, r.now.Filling() || !r.letters[view], r.state
	r.mu.Unlock()
	if state == replicator.StateFailed {
		return false, fmt.Errorf("view %s has failed: %w", view, failed)
	}
	if s == nil || filling || !s.heard.Load() {
		return false, nil
	}
	if err := s.advance(ctx, saveNothing); err != nil {
		return false, err
	}
	included, err := s.reader.Includes(ctx, r.position(), fence)
	if included && err == nil {
		err = s.refresh(ctx)
	}
	return included && err == nil, err
}

// runOf returns the run of a view; nil if it has none yet. A view that is rebuilt before it can run fails with its
// rebuild.
func (p *Pipeline) runOf(view string) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.failed[view]; replicator.IsFatal(err) {
		return nil, err
	}
	if replicator.IsFatal(p.err) {
		return nil, p.err
	}
	for _, r := range p.runs {
		if slices.ContainsFunc(r.views, func(v *replicator.View) bool { return v.Name == view }) {
			return r, nil
		}
	}
	for _, b := range p.rebuilds {
		if b.run != nil && slices.ContainsFunc(b.views, func(v *replicator.View) bool { return v.Name == view }) {
			if state, err := b.run.trouble(); state == replicator.StateFailed {
				return nil, fmt.Errorf("view %s: rebuilding it has failed: %w", view, err)
			}
		}
	}
	return nil, nil
}

// Renew ends the view's session and returns once the next one is open: the sink then knows its targets as they are now,
// where a person has altered them. Nothing is lost by it, as by any other end of a session.
func (p *Pipeline) Renew(ctx context.Context, view string) error {
	var old *session
	for {
		r, err := p.runOf(view)
		if err != nil {
			return err
		}
		var s *session
		if r != nil {
			s = r.current()
		}
		switch {
		case s == nil && old == nil:
			return fmt.Errorf("view %s: %w", view, replicator.ErrNotServing)
		case s != nil && old == nil:
			old = s
			s.renew()
		case s != nil && s != old:
			return nil
		case r != nil:
			if state, err := r.trouble(); state == replicator.StateFailed {
				return fmt.Errorf("view %s has failed: %w", view, err)
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Look asks for a full look at cells in the source, and puts what it finds there in place of what the view holds. It
// returns once that is durable; an error wraps ErrNotServing where the pipeline's session ended before.
func (p *Pipeline) Look(ctx context.Context, view string, cells []replicator.Cell) error {
	r, err := p.runOf(view)
	if err != nil {
		return err
	}
	var s *session
	if r != nil {
		s = r.current()
	}
	if s == nil {
		return fmt.Errorf("view %s: %w", view, replicator.ErrNotServing)
	}
	if err := s.look(ctx, cells); err != nil {
		return fmt.Errorf("view %s: looking at cells anew: %w", view, err)
	}
	return nil
}

// Keeps reports whether the pipeline keeps a view.
func (p *Pipeline) Keeps(view string) bool {
	return slices.ContainsFunc(p.Views, func(v *replicator.View) bool { return v.Name == view })
}
