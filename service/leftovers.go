package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
)

// Left describes what one view left in one sink.
type Left struct {
	View, Sink string
	replicator.Leftover
}

// Leftovers returns what the named views left in the sinks, also for views that were removed from the configuration. A
// name that the configuration, the store and the sinks don't know is an InvalidError.
func (p *Positions) Leftovers(ctx context.Context) (left []Left, err error) {
	known := map[string]bool{}
	for _, v := range p.Config.Views {
		known[v.Name] = true
	}
	for _, c := range p.saved {
		known[c.View] = true
	}
	err = p.eachEmptier(func(name string, sink replicator.Emptier) error {
		for _, view := range p.names {
			some, err := sink.Left(ctx, view)
			if err != nil {
				return fmt.Errorf("view %s: %w", view, err)
			}
			for _, l := range some {
				left = append(left, Left{view, name, l})
				known[view] = true
			}
		}
		return nil
	})
	for _, view := range p.names {
		if err == nil && !known[view] {
			err = InvalidError{fmt.Errorf("view %q is not in the file, the checkpoint store or a sink",
				view)}
		}
	}
	return left, err
}

// Discard removes what the named views left in the sinks, and then forgets the views.
func (p *Positions) Discard(ctx context.Context) error {
	err := p.eachEmptier(func(_ string, sink replicator.Emptier) error {
		for _, view := range p.names {
			err := sink.Empty(ctx, view)
			if err == nil {
				err = sink.(replicator.Sink).Forget(ctx, view)
			}
			if err != nil {
				return fmt.Errorf("view %s: %w", view, err)
			}
		}
		return nil
	})
	for _, view := range p.names {
		if err == nil {
			err = p.store.Forget(ctx, view)
		}
	}
	return err
}

// eachEmptier calls do with every sink that can remove leftovers. It tries all sinks, because a view that was removed
// from the configuration may have been in any of them.
func (p *Positions) eachEmptier(do func(name string, sink replicator.Emptier) error) error {
	for i := range p.Config.Sinks {
		name := p.Config.Sinks[i].Name
		opened, err := p.sink(name)
		if err != nil {
			return err
		}
		emptier, ok := opened.(replicator.Emptier)
		if ok {
			err = do(name, emptier)
		} else if slices.ContainsFunc(ViewsOf(p.Config, name), func(v *replicator.View) bool {
			return slices.Contains(p.names, v.Name)
		}) {
			err = InvalidError{errors.New("this sink can't remove a view's data. Run the command without --data, and " +
				"remove the data yourself")}
		}
		if err = errors.Join(err, opened.Close()); err != nil {
			return reaching("sink "+name, err)
		}
	}
	return nil
}
