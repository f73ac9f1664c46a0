package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// inherit makes the dead letters of a view's shadow those of the view, and removes the shadow's checkpoint, which says
// until then that this has to be done.
func inherit(ctx context.Context, store replicator.Store, v *replicator.View) error {
	shadow := v.Name + replicator.ShadowSuffix
	gone, err := takeLetters(ctx, store, v, shadow)
	if err == nil && len(gone) > 0 {
		_, err = store.Drop(ctx, gone)
	}
	if err == nil {
		err = store.Forget(ctx, shadow)
	}
	if err != nil {
		return fmt.Errorf("view %s: taking over what its rebuild left in the store: %w", v.Name, err)
	}
	return nil
}

// forgetShadow removes what the store holds of a view's shadow. It comes before the shadow itself is removed: its
// checkpoint, once the sink has no mark of it, says that it was swapped in, and that its dead letters are the view's.
func forgetShadow(ctx context.Context, store replicator.Store, v *replicator.View) error {
	shadow := v.Name + replicator.ShadowSuffix
	if err := store.Forget(ctx, shadow); err != nil {
		return err
	}
	var letters []string
	for l, err := range store.List(ctx, shadow) {
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
// obsolete: the shadow's, and the view's of cells that the shadow has none of.
func takeLetters(ctx context.Context, store replicator.Store, v *replicator.View, shadow string) (
	gone []string, err error,
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
		gone = append(gone, l.ID)
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
			gone = append(gone, l.ID)
		}
	}
	return gone, nil
}
