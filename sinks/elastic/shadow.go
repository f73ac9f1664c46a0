package elastic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// Shadowing is a Sink with one source. It rebuilds a view in a second index, and then swaps that in. With several
// sources, no source's pipeline could decide when to swap, so views are rebuilt in place.
type Shadowing struct{ *Sink }

var _ replicator.Shadower = Shadowing{}

// Shadow implements replicator.Shadower. A shadow is the alias's next index, which the alias does not show yet.
func (s Shadowing) Shadow(v *replicator.View) *replicator.View {
	shadow := *v
	shadow.Name, shadow.Shadows = v.Name+replicator.ShadowSuffix, v.Name
	return &shadow
}

func (g *generation) isShadow() bool { return strings.HasSuffix(g.view, replicator.ShadowSuffix) }

// Foreign implements replicator.Shadower. An index behind an alias belongs to replicator alone.
func (s Shadowing) Foreign(context.Context, *replicator.View) (string, error) { return "", nil }

// Swap implements replicator.Shadower. It first marks the shadows' indexes as the views' own, and then moves all
// aliases in one request. If the process dies in between, the next Open continues in the new indexes, and the next Mark
// moves the aliases to them.
func (s Shadowing) Swap(ctx context.Context, _ string, views []*replicator.View) error {
	var add, remove []*generation
	var refused []error
	for _, v := range views {
		all, err := s.generations(ctx, settingsOf(v).Index)
		if err != nil {
			refused = append(refused, inView(v, err))
			continue
		}
		shadow := shadowOf(all, v)
		if shadow == nil {
			none := replicator.Fatal(fmt.Errorf("view %s has no shadow to swap in. Rebuild the view again", v.Name))
			refused = append(refused, replicator.OfView(none, v.Name))
			continue
		}
		if err := s.client.refresh(ctx, []string{shadow.write}); err != nil {
			refused = append(refused, inView(v, fmt.Errorf("refreshing its shadow: %w", err)))
			continue
		}
		add = append(add, shadow)
		for _, g := range all {
			if g != shadow && g.number < shadow.number {
				remove = append(remove, g)
			}
		}
	}
	if len(refused) > 0 {
		return errors.Join(refused...)
	}
	for i, g := range add {
		g.view, g.fingerprint = views[i].Name, views[i].Fingerprint
		if err := s.client.call(ctx, g.putMeta(), nil); err != nil {
			return inView(views[i], fmt.Errorf("taking over index %s: %w", g.index, err))
		}
	}
	return s.show(ctx, add, remove)
}

// shadowOf returns a view's newest shadow, or nil. After an interrupted swap, the shadow may already have the view's
// name.
func shadowOf(all []*generation, v *replicator.View) *generation {
	for _, g := range slices.Backward(all) {
		if g.view == v.Name+replicator.ShadowSuffix || g.holds(v) && !g.shown {
			return g
		}
	}
	return nil
}

// Discard implements replicator.Shadower. It removes the indexes of the views' shadows.
func (s Shadowing) Discard(ctx context.Context, views []*replicator.View) error {
	var errs []error
	for _, v := range views {
		all, err := s.generations(ctx, settingsOf(v).Index)
		if err != nil {
			errs = append(errs, inView(v, err))
			continue
		}
		for _, g := range all {
			if g.view != v.Name+replicator.ShadowSuffix {
				continue
			}
			if err := s.remove(ctx, g.index); err != nil {
				errs = append(errs, fmt.Errorf("view %s: removing its shadow %s: %w", v.Name, g.index, err))
			}
		}
	}
	return errors.Join(errs...)
}
