package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/internal/pause"
	"replicator/server"
)

// A repair may find cells that can't be decoded or written. The sink records them as dead, and the store needs a dead
// letter of each. If no process runs the view, the repair saves the letters. Otherwise it makes the running process
// re-read the cells and save the letters. That process compares the store's letters with the sink's dead cells only
// once for each view, so it would not notice dead cells that a repair has added.

// Look makes the pipeline re-read cells from the source. It refuses invalid cells itself, because after an error the
// pipeline would reopen the source and the sink for all its views.
func (s *Service) Look(ctx context.Context, view, source string, cells []replicator.Cell) error {
	for _, l := range s.lines.all() {
		if l.source.Name() == source && l.Keeps(view) {
			if err := mayBeLookedAt(s.Config.View(view), cells); err != nil {
				return fmt.Errorf("%w: %w", server.ErrInvalid, err)
			}
			if l.reread != nil {
				if err := l.reread(ctx); err != nil {
					return err
				}
			}
			return l.lookAt(ctx, view, cells)
		}
	}
	return fmt.Errorf("this process does not keep view %q with source %q: %w", view, source, server.ErrUnknown)
}

func mayBeLookedAt(view *replicator.View, cells []replicator.Cell) error {
	for _, c := range cells {
		if _, err := c.Key.Values(); err != nil {
			return fmt.Errorf("can't decode the key of a cell of table %q: %w", c.Table, err)
		}
		if !view.Feeds(c) {
			return fmt.Errorf("view %s is not made from rows of table %q and kind %q", view.Name, c.Table, c.Column)
		}
	}
	return nil
}

// lookAt makes the pipeline re-read cells from the source. It waits while the pipeline opens its source and sink, and
// returns an error if the view is paused.
func (l line) lookAt(ctx context.Context, view string, cells []replicator.Cell) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return onceServing(ctx, func() error {
		if err := l.notPaused(view); err != nil {
			return err
		}
		return l.Look(ctx, view, cells)
	})
}

// onceServing calls ask until it returns anything but ErrNotServing, or until ctx is done.
func onceServing(ctx context.Context, ask func() error) error {
	for {
		if err := ask(); !errors.Is(err, replicator.ErrNotServing) || pause.For(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (l line) notPaused(view string) error {
	for _, v := range l.Status(nil) {
		if v.View == view && v.State == replicator.StatePaused {
			return fmt.Errorf("%w: view %s: %w", server.ErrBusy, view, replicator.ErrPaused)
		}
	}
	return nil
}

// lookTime is the timeout of a re-read. It is long enough for the pipeline to reopen the source and the sink.
const lookTime = time.Minute

func cellsOfLetters(letters []replicator.DeadLetter) []replicator.Cell {
	cells := make([]replicator.Cell, len(letters))
	for i := range letters {
		cells[i] = letters[i].Cell
	}
	return cells
}

// bury saves the dead letters that a repair found. If a process runs the view, bury makes that process re-read the
// cells and save the letters.
func (v Verification) bury(ctx context.Context, o *inspection, letters []replicator.DeadLetter) error {
	cells := cellsOfLetters(letters)
	if o.partitions != nil {
		return v.buryByPartition(ctx, o, letters)
	}
	for i := range letters {
		letters[i].Source = o.source.Name()
	}
	err := Client(v.Config).Look(ctx, letters[0].View, o.source.Name(), cells)
	if errors.Is(err, server.ErrNotRunning) || errors.Is(err, server.ErrUnknown) { // no process runs this view
		err = buryAlone(ctx, v.Setup, letters)
	}
	return err
}

// raising is a function that clears the dead letters which a source's cells have in a view.
type raising func(ctx context.Context, view, source string, cells []replicator.Cell) error

// betweenShards returns the function `raise`, or nil if the source has only one shard. With one shard, no other shard
// has dead letters to clear.
func betweenShards(cfg *config.Config, raise raising) raising {
	if len(cfg.Source.Shards) < 2 {
		return nil
	}
	return raise
}

// raise clears the dead letters that another shard of the source has for cells which a repair has just written. If a
// process runs the view, that process re-reads the cells and clears the letters.
func (v Verification) raise(ctx context.Context, view, source string, cells []replicator.Cell) error {
	err := Client(v.Config).Look(ctx, view, source, cells)
	if errors.Is(err, server.ErrNotRunning) || errors.Is(err, server.ErrUnknown) {
		err = alone(ctx, v.Setup, func(store replicator.Store) error { return store.Raise(ctx, view, source, cells) })
	}
	return err
}

// buryByPartition saves dead letters in the store, and makes the process that reads their partition load them. It fails
// if the process at http.listen doesn't read the partition, but another process does. Unlike bury, it doesn't make the
// process re-read the cells from the topic, which may lack changes that the repair has read from the source.
func (v Verification) buryByPartition(ctx context.Context, o *inspection, letters []replicator.DeadLetter) error {
	by := map[string][]replicator.DeadLetter{}
	for _, l := range letters {
		l.Source = o.partitions.source(l.Cell)
		by[l.Source] = append(by[l.Source], l)
	}
	var failed []error
	for source, some := range by {
		tell := func() error { return Client(v.Config).Look(ctx, o.view.Name, source, nil) }
		err := tell()
		if errors.Is(err, server.ErrNotRunning) || errors.Is(err, server.ErrUnknown) {
			tell, err = func() error { return nil }, o.partitions.unkept(ctx, groupOf(v.Config, o.view.Sink), source)
		}
		if err == nil {
			err = buryAlone(ctx, v.Setup, some)
		}
		if err == nil {
			err = tell()
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func buryAlone(ctx context.Context, setup Setup, letters []replicator.DeadLetter) error {
	return alone(ctx, setup, func(store replicator.Store) error { return store.Bury(ctx, letters) })
}

// alone opens the store and changes dead letters in it, while no process runs. If the store doesn't exist, it does
// nothing. The next start then saves a dead letter of each cell that the sink has recorded as dead.
func alone(ctx context.Context, setup Setup, change func(replicator.Store) error) error {
	r, err := readStore(ctx, setup.Config)
	if errors.Is(err, checkpoint.ErrNoState) {
		return nil
	}
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		return err
	}
	store, err := openStore(ctx, setup.Config)
	if err != nil {
		return err
	}
	return errors.Join(change(store), store.Close())
}

// buried returns a function that reports whether a cell has a dead letter in the view. The function's first call reads
// the list of dead letters.
func (v Verification) buried(o *inspection) func(context.Context, replicator.Cell) (bool, error) {
	var known map[replicator.Cell]bool
	return func(ctx context.Context, cell replicator.Cell) (bool, error) {
		if known == nil {
			known = map[replicator.Cell]bool{}
			err := EachLetter(ctx, v.Config, o.view.Name, func(l replicator.DeadLetter) error {
				known[l.Cell] = known[l.Cell] || o.has(l.Source)
				return nil
			})
			if err != nil {
				return false, fmt.Errorf("listing the dead letters: %w", err)
			}
		}
		return known[cell], nil
	}
}
