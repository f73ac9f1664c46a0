package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"replicator/internal/pause"
)

// fault is a way to disturb the program, its servers or its links.
type fault struct {
	about string
	fits  func(p Plan) bool // whether a plan may have the fault; nil: every plan may
	// mounts says that the state directory must be its own file system, which not every process may mount.
	mounts bool
	// skewed says that the fault needs a program whose clock can be set.
	skewed bool
	begin  func(ctx context.Context, w *world, f Fault) (heal, error)
}

// unless returns the fault, restricted to plans for which `excluded` returns false.
func (f fault) unless(excluded func(Plan) bool) fault {
	fits := f.fits
	f.fits = func(p Plan) bool { return !excluded(p) && (fits == nil || fits(p)) }
	return f
}

// heal ends a fault. It is nil if the fault has already ended.
type heal func(context.Context) error

// errSkipped means that a fault can't be injected now, often because another one is active.
var errSkipped = errors.New("the fault can't be injected now")

// healed returns the results of a `begin` function whose fault has already ended: no `heal` function, and its error.
func healed(err error) (heal, error) { return nil, err }

func faults() map[string]fault {
	all := map[string]fault{}
	for _, some := range []map[string]fault{programFaults(), serverFaults(), linkFaults(), sourceFaults(),
		logFaults(), failoverFaults(), sinkFaults(), stateFaults(), lateFaults(), clockFaults(), rivalFaults(),
		goneFaults()} {
		maps.Copy(all, some)
	}
	for name, f := range all {
		if !slices.Contains(beforeKafka, name) {
			all[name] = f.unless(func(p Plan) bool { return p.Topic != nil })
		}
	}
	for _, some := range []map[string]fault{memberFaults(), brokerFaults()} {
		for name, f := range some {
			all[name] = f.unless(func(p Plan) bool { return p.Topic == nil })
		}
	}
	return all
}

// faultNames returns the names of the chosen faults that fit a plan, sorted. If none fits, it returns "kill".
func faultNames(p Plan, c Choices) []string {
	all := faults()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		if (c.Faults == nil || slices.Contains(c.Faults, name)) && (f.fits == nil || f.fits(p)) &&
			(c.Mounts || !f.mounts) && (c.Clock || !f.skewed) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = append(names, "kill")
	}
	return names
}

func withFile(p Plan) bool { return p.Store == "file" }

// any returns the view that the fault's argument selects.
func (w *world) any(f Fault) View { return w.plan.Views[int(f.Arg)%len(w.plan.Views)] }

// inflict injects the plan's faults one after another, and heals them. Before the nth fault, it heals the earlier ones,
// and waits until n times `step` transactions have been written. It does neither if the fault must begin while the
// previous one lasts. Before the last fault, it calls `last`.
func (w *world) inflict(ctx context.Context, step int, last func()) error {
	known := faults()
	var open []heal
	healAll := func() error {
		for len(open) > 0 { // the latest fault first
			end := open[len(open)-1]
			open = open[:len(open)-1]
			if err := end(ctx); err != nil {
				return fmt.Errorf("healing: %w", err)
			}
		}
		return nil
	}
	for i, f := range w.plan.Faults {
		if !f.With {
			if err := healAll(); err != nil {
				return err
			}
			if err := w.wrote(ctx, int64(step*(i+1))); err != nil {
				return err
			}
		}
		if i == len(w.plan.Faults)-1 {
			last()
		}
		w.say("fault %s", f)
		end, err := known[f.Name].begin(ctx, w, f)
		switch {
		case err == nil:
			w.inflicted = append(w.inflicted, f.Name)
		case errors.Is(err, errSkipped):
			w.say("skipped")
		default:
			return fmt.Errorf("fault %s: %w", f, err)
		}
		if end != nil {
			open = append(open, end)
		}
		if err := pause.For(ctx, f.For); err != nil {
			return err
		}
	}
	return healAll()
}
