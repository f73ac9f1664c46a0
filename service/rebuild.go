package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/internal/pause"
	"replicator/server"
)

// Display shows the progress of long operations to the operator.
type Display interface {
	// Progress shows how many rows are done, and their share of all rows. ratio is 0 if the share is unknown.
	Progress(what string, rows int64, ratio float64)

	// Say shows a line that later progress doesn't overwrite.
	Say(text string)
}

// Rebuild rebuilds views and returns when they are rebuilt. It asks the running process to rebuild them. If no process
// runs, it rebuilds them itself.
func Rebuild(ctx context.Context, setup Setup, names []string, how server.Rebuild, show Display) error {
	if err := Define(setup.Config); err != nil {
		return err
	}
	err := rebuildByOther(ctx, setup.Config, names, how, show)
	for end := time.Now().Add(lockPatience); errors.Is(err, server.ErrNotRunning); {
		err = rebuildAlone(ctx, setup, names, how, show)
		if !errors.Is(err, checkpoint.ErrLocked) || time.Now().After(end) || pause.For(ctx, 100*time.Millisecond) != nil {
			break
		}
		// Another process has locked the store but didn't answer. It is starting or ending, so ask it again.
		if by := rebuildByOther(ctx, setup.Config, names, how, show); !errors.Is(by, server.ErrNotRunning) {
			err = by
		} else {
			err = errors.Join(by, err)
		}
	}
	if errors.Is(err, server.ErrInvalid) {
		return InvalidError{err}
	}
	return err
}

// lockPatience is how long a rebuild waits until the process that locked the store answers or ends.
const lockPatience = 3 * time.Second

// rebuildByOther makes the running process rebuild views and follows the progress. If a rebuild of the views is already
// running, rebuildByOther follows that rebuild.
func rebuildByOther(ctx context.Context, cfg *config.Config, names []string, how server.Rebuild, show Display) error {
	c := Client(cfg)
	err := runsAsWritten(ctx, c, cfg, names)
	if errors.Is(err, server.ErrUnknown) {
		return fmt.Errorf("%w. Send the process SIGHUP to reload the file, then rebuild; "+
			"with on_change = \"rebuild\" the reload rebuilds a view that changed", err)
	}
	if err != nil {
		return err
	}
	before, err := Checkpoints(ctx, cfg)
	if err != nil {
		return err
	}
	err = c.Rebuild(ctx, strings.Join(names, ","), how)
	switch {
	case !errors.Is(err, replicator.ErrRebuilding):
	case how.From == "": // without an offset, the running rebuild has the same result, so follow it
		err = rebuildOthers(ctx, c, names, how)
	default:
		err = fmt.Errorf("%w. Without --from, the command follows the running rebuild", err)
	}
	if err != nil {
		return err
	}
	err = follow(ctx, show, names, func(ctx context.Context) ([]replicator.ViewStatus, error) {
		views, err := c.Status(ctx)
		var refused *server.AnswerError
		if err != nil && !errors.As(err, &refused) && pause.For(ctx, 200*time.Millisecond) == nil {
			views, err = c.Status(ctx) // a process that is ending may have cut off the request
		}
		return views, err
	})
	if !errors.Is(err, server.ErrNotRunning) {
		return err
	}
	after, err := Checkpoints(ctx, cfg)
	switch {
	case err != nil:
		return err
	case rebuilt(before, after, names):
		show.Say("rebuilt: " + strings.Join(names, ", "))
		return nil
	}
	return errors.New("the running process ended before the rebuild was done. " +
		"To continue it, use `replicator run` or `replicator rebuild " + strings.Join(names, " ") + "`")
}

// rebuilt reports whether the views were rebuilt between the checkpoints before and after.
func rebuilt(before, after []replicator.Checkpoint, names []string) bool {
	saved := map[string]bool{}
	for _, now := range after {
		name, shadow := strings.CutSuffix(now.View, replicator.ShadowSuffix)
		if !slices.Contains(names, name) {
			continue
		}
		i := slices.IndexFunc(before, func(c replicator.Checkpoint) bool { return c.View == name && c.Source == now.Source })
		filled := i < 0 || before[i].Filling() || before[i].Epoch != now.Epoch
		if shadow || now.Filling() || !filled {
			return false
		}
		saved[name] = true
	}
	return len(saved) == len(names) // false if a view has no checkpoint, because it was forgotten
}

// rebuilder is the service in this process, or the client of the running process.
type rebuilder interface {
	Status(ctx context.Context) ([]replicator.ViewStatus, error)
	Rebuild(ctx context.Context, view string, how server.Rebuild) error
}

// rebuildOthers rebuilds the named views that are not being rebuilt yet. It ignores ErrRebuilding, because a view
// doesn't show as rebuilding while the swap with its rebuilt copy is retried.
func rebuildOthers(ctx context.Context, c rebuilder, names []string, how server.Rebuild) error {
	views, err := c.Status(ctx)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(views, func(v replicator.ViewStatus) bool {
			return v.View == name && v.State == replicator.StateRebuilding
		})
	})
	if len(others) == 0 {
		return nil
	}
	err = c.Rebuild(ctx, strings.Join(others, ","), how)
	for _, name := range others {
		if len(others) > 1 && errors.Is(err, replicator.ErrRebuilding) {
			if one := c.Rebuild(ctx, name, how); one != nil && !errors.Is(one, replicator.ErrRebuilding) {
				return one
			}
		}
	}
	if errors.Is(err, replicator.ErrRebuilding) {
		return nil
	}
	return err
}

// How long a command waits while a rebuild has an error: rebuildPatience if the error may pass, failedPatience if an
// operator must fix it. When the command ends, a running process still retries the rebuild.
const (
	rebuildPatience = 15 * time.Second
	failedPatience  = 2 * time.Second
)

// follow shows the progress of a rebuild until it is done.
func follow(ctx context.Context, show Display, names []string,
	status func(context.Context) ([]replicator.ViewStatus, error)) error {
	var trouble time.Time
	for {
		views, err := status(ctx)
		if err != nil {
			return err
		}
		p := progressOf(views, names).checkLost(views, names)
		if len(p.lost) == 0 && !p.busy {
			show.Say("rebuilt: " + strings.Join(names, ", "))
			return nil
		}
		show.Progress("rebuilding", p.rows, p.ratio)
		switch {
		case p.problem == "", p.well: // some rebuild continues without an error, so wait for its end
			trouble = time.Time{}
		case trouble.IsZero():
			trouble = time.Now()
		case time.Since(trouble) > p.patience:
			return errors.New(p.problem)
		}
		if pause.For(ctx, 200*time.Millisecond) != nil {
			return errors.New("the command stopped. The rebuild continues in the running process, or at the next start")
		}
	}
}

type progress struct {
	busy     bool          // some view is not rebuilt yet
	well     bool          // the rebuild of some view continues without an error
	rows     int64         // number of rows filled, in the view that has filled the most
	ratio    float64       // share filled, from 0 to 1, of the view that is farthest
	lost     []string      // views that the running process's configuration lacks
	problem  string        // the error of one of the views; "": none has one
	patience time.Duration // how long the command waits while there is a problem
}

func progressOf(views []replicator.ViewStatus, names []string) progress {
	p := progress{patience: rebuildPatience}
	for _, v := range views {
		if !slices.Contains(names, v.View) {
			continue
		}
		switch v.State {
		case replicator.StateRebuilding, replicator.StateFilling, replicator.StateStarting:
			p.busy, p.well = true, p.well || v.Error == ""
			p.rows, p.ratio = max(p.rows, v.FilledRows), max(p.ratio, v.Progress)
		case replicator.StateFailed:
			p.busy, p.patience = true, failedPatience
		case replicator.StateRetrying, replicator.StatePaused: // a paused view's rebuild continues after a resume
			p.busy = true
		}
		if v.Error != "" {
			p.problem = fmt.Sprintf("view %s: %s", v.View, v.Error)
		}
	}
	return p
}

// checkLost returns p, with a problem added if the configuration of the running process lacks some of the named views.
func (p progress) checkLost(views []replicator.ViewStatus, names []string) progress {
	for _, name := range names {
		if !slices.ContainsFunc(views, func(v replicator.ViewStatus) bool { return v.View == name }) {
			p.lost = append(p.lost, name)
		}
	}
	if len(p.lost) > 0 {
		p.well, p.patience = false, failedPatience
		p.problem = fmt.Sprintf("not rebuilt: %s. The running process loaded a file without the view. Put the view "+
			"back into the file, send the process SIGHUP, and rebuild the view again", strings.Join(p.lost, ", "))
	}
	return p
}
