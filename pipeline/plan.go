package pipeline

import (
	"context"
	"errors"
	"fmt"

	"replicator"
)

// Outcome is what Run would do first with a view.
type Outcome int

const (
	Continues Outcome = iota // the view continues from its position; an incomplete fill continues, too
	Begins                   // the view is new or was reset, and begins as StartAt says
	Refills                  // the view is filled again: the sink lost the view, or the source lost part of its log
	Rebuilds                 // the view's definition changed, and on_change says to rebuild it
	Refused                  // the view does not run
)

// Planned is what Run would do with a view: the Outcome, with details.
type Planned struct {
	Outcome
	Filling    bool  // the view's incomplete fill continues
	Rebuilding bool  // the view's rebuild to this definition continues, and the old contents stay visible
	Err        error // why the view is Refused, or which loss in the source's log causes Refills; else nil
}

// Plan returns, by view, what Run would do, and changes nothing. saved are the store's checkpoints, read before the
// call. If another process runs the views meanwhile, the sink is then ahead of these checkpoints, which doesn't look
// like a loss.
func (p *Pipeline) Plan(ctx context.Context, saved []replicator.Checkpoint) (map[string]Planned, error) {
	known, err := p.planner.marks(ctx)
	if err != nil {
		return nil, err
	}
	known.saved = saved
	if err := p.planner.definitions.update(ctx, p.Views, known); err != nil {
		return nil, err
	}
	if err := p.planner.askFormer(ctx, p.Views, known); err != nil {
		return nil, err
	}
	plan, asked := map[string]Planned{}, map[string]error{}
	for _, v := range p.Views {
		others, err := sameKeys(ctx, p.Source, v)
		if err != nil {
			return nil, err
		}
		if others != nil {
			plan[v.Name] = Planned{Outcome: Refused, Err: others}
			continue
		}
		c, m := known.of(v.Name)
		at, err := p.planner.goesOnAt(v, known)
		one := planned(v, c, m, at, err)
		one.Rebuilding = one.Outcome == Continues && known.rebuilding(v)
		plan[v.Name] = one
		if at == nil || err != nil {
			continue
		}
		switch lost := p.lost(ctx, v, at, asked); {
		case lost == nil:
		case p.OnLost == "rebuild":
			plan[v.Name] = Planned{Outcome: Refills, Err: lost}
		default:
			plan[v.Name] = Planned{Outcome: Refused, Err: p.stopsFor(lost, viewSet{v})}
		}
	}
	return plan, nil
}

// lost returns why the source's log can't be read from a view's position, if the reason is a loss (ErrLost). It returns
// nil if the log can be read, or if the reason is a different one. asked caches the results, by position.
func (p *Pipeline) lost(
	ctx context.Context, v *replicator.View, c *replicator.Checkpoint, asked map[string]error,
) error {
	at := []replicator.Position{c.Position}
	if !c.Read.IsZero() && c.Read != c.Position {
		at = append(at, c.Read)
	}
	place := fmt.Sprint(at)
	if err, known := asked[place]; known {
		return err
	}
	reader, err := p.Source.Open(ctx, at, replicator.TablesOf([]*replicator.View{v})...)
	if err == nil {
		err = reader.Close()
	}
	if !errors.Is(err, replicator.ErrLost) {
		err = nil // not a loss: the check of the source reports this error
	}
	asked[place] = err
	return err
}

func planned(
	v *replicator.View, c *replicator.Checkpoint, m *replicator.Mark, at *replicator.Checkpoint, err error,
) Planned {
	changed := c != nil && !replicator.SameDefinition(c.Fingerprint, v.Fingerprint) ||
		m != nil && !replicator.SameDefinition(m.Fingerprint, v.Fingerprint)
	switch {
	case errors.Is(err, errUnderWay):
		return Planned{Outcome: Continues}
	case errors.Is(err, errChanged), err == nil && at == nil && changed:
		return Planned{Outcome: Rebuilds}
	case err != nil:
		return Planned{Outcome: Refused, Err: err}
	case at != nil:
		return Planned{Outcome: Continues, Filling: at.Filling()}
	case c == nil && (m == nil || m.Position.IsZero() || m.IsAnew()):
		return Planned{Outcome: Begins}
	}
	return Planned{Outcome: Refills}
}

// Foresee returns, by view, why Run would refuse it, given the store's checkpoints.
func (p *Pipeline) Foresee(ctx context.Context, saved []replicator.Checkpoint) (map[string]error, error) {
	plan, err := p.Plan(ctx, saved)
	refused := map[string]error{}
	for name, planned := range plan {
		if planned.Outcome == Refused {
			refused[name] = planned.Err
		}
	}
	return refused, err
}
