package elastic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
	"replicator/sinks/judge"
)

// registryID is the id of the progress document, which holds the view's marks. Each index has one, so that removing,
// emptying or restoring the index affects both the data and the marks.
const registryID = "replicator:marks"

// registry is the content of the progress document (registryID): the view's progress with each source.
type registry map[string]registered

// registered is what an index's progress document holds for one source: the source's mark, and the view's definition
// (as a hash, the fingerprint) and horizon for this source.
type registered struct {
	replicator.StoredStanding
	Fingerprint string `json:"fingerprint,omitempty"` // the view's, with this source's tables; "": the index's
	Horizon     int64  `json:"horizon,omitempty"`     // the source's horizon: deleted cells below it may be forgotten
}

// fingerprint returns the fingerprint with which the source began to fill the index.
func (r registered) fingerprint(of *generation) string { return cmp.Or(r.Fingerprint, of.fingerprint) }

// registryOf returns an index's progress document (see registryID), before it is read. It has the index's name as its
// address, because the alias for writes may change.
func registryOf(g *generation) *document {
	return &document{index: g.index, id: registryID, routing: g.registryRouting()}
}

// registryRouting returns the routing of the progress document. It is empty unless the index's mapping requires a
// routing.
func (g *generation) registryRouting() string {
	if g.routed {
		return registryID
	}
	return ""
}

type registryState struct {
	Cells struct {
		Marks registry `json:"marks"`
	} `json:"cells"`
	Hidden bool `json:"hidden"`
}

// parseRegistry decodes the progress document of an index, which holds the view's marks. If the document does not
// exist, there are no marks.
func parseRegistry(d *document) (registry, error) {
	if d.failure != nil {
		return nil, fmt.Errorf("its marks can't be read: %w", d.failure.classify())
	}
	var doc struct {
		State registryState `json:"_replicator"`
	}
	if d.exists {
		if err := json.Unmarshal(d.source, &doc); err != nil {
			return nil, replicator.Fatal(fmt.Errorf("its marks can't be read: %w. Rebuild the view", err))
		}
	}
	if doc.State.Cells.Marks == nil {
		return registry{}, nil
	}
	return doc.State.Cells.Marks, nil
}

// registry reads the view's marks from the progress document of an index. It tries several times, because an index that
// another source's pipeline is just creating has no shard for a moment.
func (s *Sink) registry(ctx context.Context, g *generation) (registry, error) {
	for tries := 1; ; tries++ {
		d := registryOf(g)
		if err := s.client.readEach(ctx, []*document{d}); err != nil {
			return nil, fmt.Errorf("reading marks: %w", err)
		}
		if d.failure != nil && d.failure.isGone() {
			return nil, gone(d.index)
		}
		if d.failure == nil || !d.failure.isTemporary() || tries > maxTries {
			return parseRegistry(d)
		}
		if err := pause.For(ctx, backoff(tries)); err != nil {
			return nil, err
		}
	}
}

// render encodes the progress document, which holds the view's marks. The document is hidden, so that the view's alias
// does not show it.
func (r registry) render() ([]byte, error) {
	state := registryState{Hidden: true}
	state.Cells.Marks = r
	return json.Marshal(map[string]registryState{stateField: state})
}

// errAgain means that a write failed every time, because other replicators kept changing the same progress document or
// write alias.
var errAgain = fmt.Errorf("other replicators changed the same marks or write alias in each of %d attempts", maxRounds)

// update reads the progress document (registry) of each view, lets `change` edit it, and writes it if no other process
// has written it meanwhile. Otherwise update starts over with all views, so `change` may be called again for a view.
func (t *Target) update(ctx context.Context, change func(view int, r registry) error) ([]registry, error) {
	tries := 0
	for range maxRounds {
		documents, registries, err := t.registries(ctx)
		if err != nil {
			return nil, err
		}
		var changed []*document
		var of []*replicator.View
		for i, d := range documents {
			before := maps.Clone(registries[i])
			if err := change(i, registries[i]); err != nil {
				return nil, err
			}
			if reflect.DeepEqual(before, registries[i]) {
				continue
			}
			if d.text, err = registries[i].render(); err != nil {
				return nil, fmt.Errorf("view %s: %w", t.views[i].Name, err)
			}
			changed, of = append(changed, d), append(of, t.views[i])
		}
		if err := t.sink.client.write(ctx, changed); err != nil {
			return nil, err
		}
		raced, busy := false, false
		for n, d := range changed {
			switch {
			case d.written:
			case d.failure.Status == http.StatusConflict:
				raced = true
			case d.failure.isTemporary() && tries < maxTries:
				busy = true
			case d.failure.isGone():
				return nil, gone(d.index)
			default:
				return nil, inView(of[n], d.failure.classify())
			}
		}
		switch {
		case busy:
			tries++
			if err := pause.For(ctx, backoff(tries)); err != nil {
				return nil, err
			}
		case !raced:
			return registries, nil
		}
	}
	return nil, errAgain
}

func (t *Target) registries(ctx context.Context) ([]*document, []registry, error) {
	documents, registries := make([]*document, len(t.kept)), make([]registry, len(t.kept))
	for i, k := range t.kept {
		documents[i] = registryOf(k.generation)
		documents[i].index = k.gate.Load().alias
	}
	if err := t.sink.client.readEach(ctx, documents); err != nil {
		return nil, nil, err
	}
	var refused []error
	for i, d := range documents {
		var err error
		registries[i], err = parseRegistry(d)
		if f := asFailure(err); f != nil && f.isGone() {
			return nil, nil, gone(d.index)
		}
		if err != nil {
			refused = append(refused, inView(t.views[i], err))
		}
	}
	return documents, registries, errors.Join(refused...)
}

// register adds the source to the progress document of each view that does not have it yet.
func (t *Target) register(ctx context.Context) error {
	at := make([]replicator.Standing, len(t.views))
	register := func(view int, r registry) error {
		m, ok := r[t.source]
		if !ok {
			m.Phase = replicator.PhaseFilling
			if v := t.views[view]; v.Fingerprint != t.kept[view].generation.fingerprint {
				m.Fingerprint = v.Fingerprint
			}
			r[t.source] = m
		}
		at[view] = m.Standing()
		return nil
	}
	var registries []registry
	err := t.throughGates(ctx, func() (err error) {
		registries, err = t.update(ctx, register)
		return err
	})
	if err != nil {
		return fmt.Errorf("adding the source to the views' marks: %w", err)
	}
	for i, k := range t.kept {
		g := k.gate.Load()
		k.gate.Store(&gate{g.alias, max(g.horizon, registries[i][t.source].Horizon)})
	}
	// The "" says that the sink needs no check of the server's name: a failover loses no acknowledged data, because it is
	// on the disks of all in-sync copies, and only an in-sync copy takes over.
	t.marks = judge.NewMarks(t.views, at, "")
	return nil
}

// Foreign implements replicator.Shared. It returns the views whose marks another replicator had changed when Mark was
// last called.
func (t *Target) Foreign() []string { return t.marks.Foreign() }

// Mark implements replicator.Target. Once every source has filled a view's new index, Mark moves the view's alias
// there.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	err := t.marks.Mark(at, func(marking *judge.Marking) error {
		var registries []registry
		err := t.throughGates(ctx, func() (err error) {
			registries, err = t.update(ctx, func(view int, r registry) error {
				m, ok := r[t.source]
				if !ok {
					return replicator.OfView(marking.Gone(view), t.views[view].Name)
				}
				raised, err := marking.Raise(view, m.Standing())
				m.StoredStanding = raised.Stored()
				r[t.source] = m
				return err
			})
			return err
		})
		if err != nil {
			return err
		}
		return t.showFilled(ctx, registries)
	})
	if err == nil {
		t.sink.removeRetired(ctx)
	}
	return err
}

// aliasInterval is how often to check whether an alias was removed, moved or changed. A check is one small request per
// view.
const aliasInterval = 10 * time.Second

// showFilled moves a view's alias to the view's new index once every source has filled that index. It also repairs
// aliases, without which readers would find nothing. A view fails if its alias leads to an index that replicator did
// not make.
func (t *Target) showFilled(ctx context.Context, registries []registry) error {
	look := time.Since(t.looked) > aliasInterval
	if look {
		t.looked = time.Now()
	}
	for i, k := range t.kept {
		if k.view.Shadows != "" {
			continue
		}
		if look {
			if err := t.sink.mendAlias(ctx, k); err != nil {
				return inView(k.view, err)
			}
			// Another source continues in a newer index. This source must fill that index, too, before readers see it.
			if replaced, err := t.leftBehind(ctx, k); err != nil {
				return inView(k.view, err)
			} else if replaced {
				return errReplaced
			}
		}
		if !k.generation.shown && t.isFilled(registries[i]) {
			if err := t.takeOver(ctx, k); err != nil {
				return inView(k.view, err)
			}
		}
	}
	return nil
}

// leftBehind reports whether another source has begun to fill the view again, in a newer index.
func (t *Target) leftBehind(ctx context.Context, k *keeper) (bool, error) {
	if t.source == "" {
		return false, nil
	}
	return t.isReplaced(ctx, k)
}

func (t *Target) isFilled(r registry) bool {
	for _, m := range r {
		if m.Phase != replicator.PhaseFilled {
			return false
		}
	}
	return !slices.ContainsFunc(t.sink.config.Sources, func(source string) bool {
		_, ok := r[source]
		return !ok
	})
}

// takeOver moves the alias from the older indexes to the view's own, and retires the older ones. A search sees either
// the old or the new index.
func (t *Target) takeOver(ctx context.Context, k *keeper) error {
	if err := t.Refresh(ctx); err != nil {
		return err
	}
	all, err := t.sink.generations(ctx, k.alias)
	if err != nil {
		return err
	}
	var older []*generation
	for _, g := range all {
		switch {
		case g.isShadow():
		case g.number < k.generation.number:
			older = append(older, g)
		case g.number > k.generation.number:
			return nil // a newer index exists, which the next Mark reports
		case g.shown:
			k.generation.shown = true // another shard's pipeline moved the alias
			return nil
		}
	}
	if err := t.sink.show(ctx, []*generation{k.generation}, older); err != nil {
		return err
	}
	t.sink.log.Info("view now uses its new index", "sink", t.sink.name, "view", k.view.Name,
		"index", k.generation.index)
	return nil
}
