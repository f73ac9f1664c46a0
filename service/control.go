package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/canal"
	"replicator/pipeline"
	"replicator/server"
)

var _ server.Controller = (*Service)(nil)

// Status returns the status of every view and source, in the order of the configuration.
func (s *Service) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	counts, err := s.store.Count(ctx)
	if err != nil {
		return nil, err
	}
	var all []replicator.ViewStatus
	for _, l := range s.lines.all() {
		views, unlogged := l.Status(counts), l.Swapped()
		for i := range views {
			v := &views[i]
			if _, v.Verifying = unlogged[v.View]; v.Verifying {
				v.Format = l.source.Stats().Format
			}
		}
		all = append(all, views...)
	}
	if err := s.placed(ctx, all); err != nil {
		return nil, err
	}
	return append(all, s.statusElsewhere(ctx, all)...), nil
}

// placed sets the Position of each view that no running pipeline keeps to the position where the view stopped.
func (s *Service) placed(ctx context.Context, views []replicator.ViewStatus) error {
	var saved []replicator.Checkpoint
	for i := range views {
		v := &views[i]
		if v.Position != "" {
			continue
		}
		if v.Applied.IsZero() && saved == nil {
			var err error
			if saved, err = s.store.Checkpoints(ctx); err != nil {
				return err
			}
		}
		at := v.Applied
		for _, checkpoint := range saved {
			if at.IsZero() && checkpoint.View == v.View && checkpoint.Source == v.Source {
				at = checkpoint.Position
			}
		}
		v.Position, _ = Place(at)
	}
	return nil
}

// Wait returns once the views include every commit up to the fence. It waits only for pipelines of the fence's source,
// because a log position means nothing to other servers. It also waits for pending comparisons of the views with the
// source.
func (s *Service) Wait(ctx context.Context, fence server.Fence, views []string) error {
	if err := KnowsSource(s.Config, fence.Source); err != nil {
		return fmt.Errorf("%w: %w", server.ErrInvalid, err)
	}
	for _, name := range views {
		if s.Config.View(name) == nil {
			return fmt.Errorf("view %q: %w in this configuration", name, server.ErrUnknown)
		}
	}
	if s.cluster != nil {
		return s.waitInGroups(ctx, fence, views)
	}
	var errs []error
	for _, l := range s.lines.all() {
		wanted := l.keeps(views)
		if len(views) > 0 && len(wanted) == 0 || l.source.Name() != fence.Source {
			continue
		}
		err := l.Wait(ctx, fence.At, wanted)
		if err == nil {
			err = l.compared(ctx, wanted)
		}
		if errors.Is(err, canal.ErrFence) { // the text is no valid position, so every pipeline returns this error
			return fmt.Errorf("%w: %w", server.ErrInvalid, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// notHere returns an error that says why no pipeline of this process can retry the view's dead letters of this source.
func (s *Service) notHere(view, source string) error {
	if s.cluster != nil && slices.ContainsFunc(s.Config.Views, func(v *replicator.View) bool { return v.Name == view }) {
		return fmt.Errorf("view %s: another member keeps partition %s. Retry its dead letters at that member; "+
			"`replicator status` shows which one it is", view, source)
	}
	return fmt.Errorf("view %s is no longer in the configuration. `replicator deadletters list --all` has the ids of "+
		"its dead letters, `replicator deadletters drop ID…` drops them", view)
}

// Retry retries dead letters. It makes the views' pipelines reopen the sink, re-reads the cells from the source and
// writes their current state. A sink reads its target's schema only when it opens, and operators often fix a dead
// letter's cause in that schema.
func (s *Service) Retry(ctx context.Context, which server.Selection) (tried, left int, err error) {
	if err := s.mayHaveLetters(ctx, which.View); err != nil {
		return 0, 0, err
	}
	type group struct{ source, view string }
	cells := map[group][]replicator.Cell{}
	chosen := map[string]bool{}
	err = selected(ctx, s.store, which, func(l replicator.DeadLetter) {
		g := group{l.Source, l.View}
		cells[g], chosen[l.ID] = append(cells[g], l.Cell), true
	})
	if err != nil {
		return 0, 0, err
	}
	for g := range cells {
		lines := s.lines.all()
		i := slices.IndexFunc(lines, func(l line) bool { return l.source.Name() == g.source && l.Keeps(g.view) })
		if i < 0 {
			return 0, 0, s.notHere(g.view, g.source)
		}
		if err := lines[i].notPaused(g.view); err != nil {
			return 0, 0, err
		}
	}
	for _, l := range s.lines.all() {
		var views []string
		for _, v := range l.views {
			if len(cells[group{l.source.Name(), v.Name}]) > 0 {
				views = append(views, v.Name)
			}
		}
		if len(views) == 0 {
			continue
		}
		if err := s.renew(ctx, l, views); err != nil {
			return tried, left, err
		}
		for _, view := range views {
			g := group{l.source.Name(), view}
			if err := l.Look(ctx, view, cells[g]); err != nil {
				return tried, left, err
			}
			tried += len(cells[g])
		}
	}
	err = selected(ctx, s.store, server.Selection{All: true}, func(l replicator.DeadLetter) {
		if chosen[l.ID] {
			left++
		}
	})
	return tried, left, err
}

// renew makes the pipeline reopen the source and the sink for the views. If that takes too long, it returns the error
// that one of the views reports.
func (s *Service) renew(ctx context.Context, l line, views []string) error {
	patient, cancel := context.WithTimeout(ctx, rebuildPatience)
	defer cancel()
	err := l.Renew(patient, views...)
	if err == nil || patient.Err() == nil && !errors.Is(err, replicator.ErrNotServing) || ctx.Err() != nil {
		return err
	}
	return s.whatIsWrong(ctx, views, err)
}

// Drop removes dead letters and returns how many it removed.
func (s *Service) Drop(ctx context.Context, which server.Selection) (int, error) {
	if err := s.mayHaveLetters(ctx, which.View); err != nil {
		return 0, err
	}
	return drop(ctx, s.store, which)
}

// Rebuild starts rebuilds. view is one name, or several separated by commas.
func (s *Service) Rebuild(ctx context.Context, view string, how server.Rebuild) error {
	return s.rebuild(ctx, strings.Split(view, ","), how, line.Rebuild)
}

// rebuild starts a rebuild in each pipeline that writes some of the views.
func (s *Service) rebuild(ctx context.Context, views []string, how server.Rebuild,
	begin func(l line, ctx context.Context, names []string, mode pipeline.RebuildMode, from string) error) error {
	for _, name := range views {
		if s.Config.View(name) == nil {
			return fmt.Errorf("view %q: %w in this configuration", name, server.ErrUnknown)
		}
	}
	if err := s.checkFrom(ctx, views, how.From); err != nil {
		return err
	}
	mode := pipeline.BySwap
	if how.InPlace || how.From != "" {
		mode = pipeline.InPlace
	}
	from := ""
	if how.From != "" {
		from = canal.Offset(how.From)
	}
	for _, l := range s.lines.all() {
		names := l.keeps(views)
		if len(names) == 0 {
			continue
		}
		err := begin(l, ctx, names, mode, from)
		if errors.Is(err, replicator.ErrRebuilding) || errors.Is(err, replicator.ErrPaused) {
			return fmt.Errorf("%w: %w", server.ErrBusy, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l line) keeps(views []string) []string {
	return slices.DeleteFunc(slices.Clone(views), func(name string) bool { return !l.Keeps(name) })
}

// checkFrom returns an error that wraps server.ErrInvalid if from is not a valid starting offset for the tables that
// feed the views.
func (s *Service) checkFrom(ctx context.Context, views []string, from string) error {
	if from == "" {
		return nil
	}
	for _, l := range s.lines.all() {
		for _, name := range l.keeps(views) {
			for _, f := range s.Config.View(name).From {
				err := l.source.CheckOffset(ctx, f.Table, from)
				if errors.Is(err, canal.ErrOffset) {
					err = fmt.Errorf("%w: --from: %w", server.ErrInvalid, err)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Pause stops writing to a view until Resume.
func (s *Service) Pause(ctx context.Context, view string) error {
	for _, c := range s.consumers {
		c.setPaused(view, true)
	}
	return s.each(view, func(e engine) error { return e.Pause(ctx, view) })
}

// Resume continues a paused view.
func (s *Service) Resume(ctx context.Context, view string) error {
	for _, c := range s.consumers {
		c.setPaused(view, false)
	}
	return s.each(view, func(e engine) error { return e.Resume(ctx, view) })
}

func (s *Service) each(view string, do func(engine) error) error {
	if s.Config.View(view) == nil {
		return fmt.Errorf("view %q: %w in this configuration", view, server.ErrUnknown)
	}
	for _, l := range s.lines.all() {
		if l.Keeps(view) {
			if err := do(l); err != nil {
				return err
			}
		}
	}
	return nil
}
