package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// inherit makes the dead letters of a view's shadow (the second copy that a rebuild filled) the view's own, after a
// swap. Then it removes the shadow's checkpoint. If the program crashes before that, the next start finds the
// checkpoint and calls inherit again.
func inherit(ctx context.Context, store replicator.Store, v *replicator.View) error {
	shadow := v.Name + replicator.ShadowSuffix
	obsolete, err := takeLetters(ctx, store, v, shadow)
	if err == nil && len(obsolete) > 0 {
		_, err = store.Drop(ctx, obsolete)
	}
	if err == nil {
		err = forgetShadow(ctx, store, v)
	}
	if err != nil {
		return fmt.Errorf("view %s: taking over the checkpoints and dead letters of its rebuild: %w", v.Name, err)
	}
	return nil
}

// forgetShadow removes what the store has of a view's shadow (the second copy that a rebuild fills). It comes before
// the sink removes the shadow, because a checkpoint without a mark in the sink means that the shadow was swapped in.
func forgetShadow(ctx context.Context, store replicator.Store, v *replicator.View) error {
	if err := store.Forget(ctx, v.Name+replicator.ShadowSuffix); err != nil {
		return err
	}
	return dropOfShadow(ctx, store, v)
}

func dropOfShadow(ctx context.Context, store replicator.Store, v *replicator.View) error {
	var letters []string
	for l, err := range store.List(ctx, v.Name+replicator.ShadowSuffix) {
		if err != nil {
			return err
		}
		letters = append(letters, l.ID)
	}
	if len(letters) == 0 {
		return nil
	}
	_, err := store.Drop(ctx, letters)
	return err
}

// lettersAtOnce is how many bytes of dead letters are recorded at once.
const lettersAtOnce = 1 << 20

// takeLetters records the dead letters of a view's shadow (the second copy that a rebuild filled) as the view's own. It
// returns the ids of the view's other letters, which are obsolete.
func takeLetters(ctx context.Context, store replicator.Store, v *replicator.View, shadow string) (
	obsolete []string, err error,
) {
	type place struct {
		source string
		cell   replicator.Cell
	}
	taken := map[place]bool{}
	var some []replicator.DeadLetter // letters for one call of Bury, because each call waits for a disk
	size := 0
	bury := func() error {
		if len(some) == 0 {
			return nil
		}
		err := store.Bury(ctx, some)
		some, size = nil, 0
		return err
	}
	for l, err := range store.List(ctx, shadow) {
		if err != nil {
			return nil, err
		}
		taken[place{l.Source, l.Cell}] = true
		l.View, l.ID = v.Name, ""
		if some, size = append(some, l), size+len(l.Raw)+replicator.RowOverhead; size > lettersAtOnce {
			if err := bury(); err != nil {
				return nil, err
			}
		}
	}
	if err := bury(); err != nil {
		return nil, err
	}
	for l, err := range store.List(ctx, v.Name) {
		if err != nil {
			return nil, err
		}
		if !taken[place{l.Source, l.Cell}] {
			obsolete = append(obsolete, l.ID)
		}
	}
	return obsolete, nil
}
