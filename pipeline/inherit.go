package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// inherit makes the dead letters of a view's shadow those of the view, and removes the shadow's checkpoint, which says
// until then that this has to be done. It may be done again from the start until then: so the shadow's letters go after
// that. Where a crash comes in between, the next start removes them.
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
		return fmt.Errorf("view %s: taking over what its rebuild left in the store: %w", v.Name, err)
	}
	return nil
}

// forgetShadow removes what the store holds of a view's shadow. It comes before the shadow itself is removed: its
// checkpoint, once the sink has no mark of it, says that it was swapped in, and that its dead letters are the view's.
func forgetShadow(ctx context.Context, store replicator.Store, v *replicator.View) error {
	if err := store.Forget(ctx, v.Name+replicator.ShadowSuffix); err != nil {
		return err
	}
	return dropOfShadow(ctx, store, v)
}

// dropOfShadow drops the dead letters of a view's shadow.
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

// lettersAtOnce is how many bytes of dead letters are read before they are buried.
const lettersAtOnce = 1 << 20

// takeLetters buries the dead letters of a view's shadow as the view's own. It returns the ids of those that are
// obsolete: the view's of cells that the shadow has none of.
func takeLetters(ctx context.Context, store replicator.Store, v *replicator.View, shadow string) (
	obsolete []string, err error,
) {
	type place struct {
		source string
		cell   replicator.Cell
	}
	taken := map[place]bool{}
	var some []replicator.DeadLetter // each call of Bury waits for a disk
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
