package pipeline

import (
	"fmt"
	"slices"
	"time"

	"replicator"
)

// Status returns the status of every view of the pipeline, in their order. deadLetters are the numbers of dead letters
// by view.
func (p *Pipeline) Status(deadLetters map[string]int) []replicator.ViewStatus {
	all := make([]replicator.ViewStatus, 0, len(p.Views))
	for _, v := range p.Views {
		st := replicator.ViewStatus{
			View: v.Name, Sink: v.Sink, Source: p.Source.Name(), Kind: v.Kind, Definition: p.planner.definitions.of(v),
			State: replicator.StateStarting, DeadLetters: deadLetters[v.Name], Checkpoint: p.shown.checkpointAge(v),
			Evicted: p.shown.evictedKeys(v), Gone: p.shown.goneCells(v),
			Shared: p.company.any(viewSet{v}),
		}
		if err := p.stopped.reason(v.Name); err != nil {
			st.State, st.Error = stateBy(err), err.Error()
		}
		var filling time.Time // when the view's fill began; zero: it is not being filled
		for _, r := range p.runs.all() {
			if i := slices.Index(r.views, v); i >= 0 {
				filling = r.describe(i, &st)
			}
		}
		if b := p.rebuildOf(v.Name); b != nil {
			b.describe(v, &st)
			filling = time.Time{} // a rebuild does not add to the lag: the old contents stay visible
		}
		if at, paused := p.stopped.pausedAt(v); paused {
			st.State, st.Applied, st.Frozen = replicator.StatePaused, at, false
		}
		if st.ReadLag == nil {
			st.ReadLag = p.shown.lag(&st)
		}
		if st.LagSeconds = st.ReadLag; !filling.IsZero() { // until the fill ends, the lag is the age of the fill
			st.LagSeconds = secondsSince(filling)
		}
		all = append(all, st)
	}
	return all
}

// Shown returns, by view, the time up to which the view showed everything committed. If that is unknown, the time is
// the pipeline's start. Call it after Run has returned.
func (p *Pipeline) Shown() map[string]time.Time { return p.shown.of(p.Views) }

func secondsSince(at time.Time) *float64 {
	seconds := max(0, time.Since(at).Seconds())
	return &seconds
}

func stateBy(err error) string {
	if replicator.IsFatal(err) {
		return replicator.StateFailed
	}
	return replicator.StateRetrying
}

// describe fills in what the run knows of its i-th view. The result is the time at which the view's present fill began;
// zero: the view is not being filled.
func (r *run) describe(i int, st *replicator.ViewStatus) (filling time.Time) {
	now := r.progress.current()
	fillProgress(now, st)
	state, err := r.shownTrouble()
	switch {
	case state == replicator.StateRunning && now.Filling():
		state = replicator.StateFilling
	case state == replicator.StateRunning && (r.isApart() || slices.Contains(r.late, r.views[i]) && !r.agrees()):
		state = replicator.StateStarting // the view may show older changes than the other views of the run
	}
	st.State, st.Applied = state, now.Position
	if err != nil {
		st.Error = r.explain(r.views[i], err)
	}
	if s := r.current(); s != nil {
		if lag, known := s.lag(); known {
			seconds := lag.Seconds()
			st.ReadLag = &seconds
		}
		st.Position, st.Rate = s.reader.Locate(st.Applied.Order), r.meter.rate(i)
		if found := s.tail.referring.found.Load(); found > referringPage && len(r.views[i].Joins) > 0 {
			st.FanOut = found
		}
	}
	if now.Filling() {
		filling = time.UnixMicro(now.Epoch) // a fill's epoch is the time when the fill began
	}
	return filling
}

// isApart reports whether other views run separately from this run, and this run is not the main one. If no run is
// healthy, there is no main run.
func (r *run) isApart() bool {
	if main := r.main(); main != nil {
		return main != r
	}
	return slices.ContainsFunc(r.runs.all(), func(other *run) bool { return other != r && len(other.views.live()) > 0 })
}

// agrees reports whether the views that began behind the run's other views (late) have caught up with these.
func (r *run) agrees() bool {
	if s := r.current(); s != nil && s.passed() {
		r.agreed.Store(true)
	}
	return r.agreed.Load()
}

// explain says why a view of the run does not run at the moment. If another view has the error, explain gives only the
// other view's name, because nothing about this view can fix it.
func (r *run) explain(v *replicator.View, err error) string {
	groups, others := replicator.Troubled(r.views, err)
	if groups == nil || !slices.Contains(others, v) {
		return err.Error()
	}
	troubled := slices.Concat(groups...)
	whose := "view " + troubled[0].ShownAs()
	if more := len(troubled) - 1; more > 0 {
		whose += fmt.Sprintf(" and %d more", more)
	}
	return "interrupted by an error of " + whose + ", and continues soon"
}

func fillProgress(at replicator.Standing, st *replicator.ViewStatus) {
	var rows, total int64
	for _, t := range at.Fill {
		rows, total = rows+t.Rows, total+t.Total
	}
	st.FilledRows = rows
	if total > 0 {
		st.Progress = min(1, float64(rows)/float64(total))
	}
}

func (b *rebuild) describe(v *replicator.View, st *replicator.ViewStatus) {
	stands := st.State == replicator.StateFailed || st.State == replicator.StateRetrying
	st.State, st.Error = replicator.StateRebuilding, "" // the rebuild will fix the live view's error
	_, err := b.run.trouble()
	switch {
	case b.err != nil: // the swap failed; the live view is kept up to date
		st.State, st.Error = stateBy(b.err), b.err.Error()
	case replicator.IsFatal(err):
		st.State, st.Error = replicator.StateFailed, err.Error()
	case err != nil:
		st.Error = err.Error()
	}
	st.Frozen = st.State == replicator.StateRebuilding && (stands || slices.Contains(b.frozen, v))
	fillProgress(b.run.progress.current(), st)
}
