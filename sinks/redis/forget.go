package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

// The sink removes the states of deleted cells below a horizon, which is a log position that only rises. The key
// replicator:registry has the horizon of each view, for each generation (a redefined view begins a new one). In a
// cluster, nothing is removed.

var _ replicator.Forgetter = (*Target)(nil)

//go:embed forget.lua
var forgetSource string

// definition is one definition of a view: the view, and the definition's number (generation).
type definition struct {
	view       viewID
	generation uint64
}

// horizonField returns the name of the registry's field with a horizon.
func horizonField(id viewID, generation uint64) string {
	return fmt.Sprintf("%x:%d", string(id), generation)
}

func parseHorizonField(name string) (of definition, is bool) {
	id, generation, is := strings.Cut(name, ":")
	raw, err := hex.DecodeString(id)
	if !is || err != nil {
		return of, false
	}
	of.view = viewID(raw)
	of.generation, err = strconv.ParseUint(generation, 10, 64)
	return of, err == nil
}

// horizon returns the log position below which the view's states of deleted cells may have been removed; 0 if there is
// none. g may be nil.
func (g *registry) horizon(id viewID, generation uint64) int64 {
	if g == nil {
		return 0
	}
	return g.horizons[definition{id, generation}]
}

// ForgetGone implements replicator.Forgetter. In a cluster it only counts the deleted cells.
func (t *Target) ForgetGone(
	ctx context.Context, after string, limit int,
) (found replicator.GoneCells, next string, err error) {
	keys, next, err := t.sink.scan(ctx, recordKey(""), "", after, limit)
	if err != nil {
		return found, "", classify(err, listingRecords)
	}
	known, err := t.sink.forgettables(ctx)
	if err != nil {
		return found, "", err
	}
	for some := range slices.Chunk(keys, recordPage) {
		n, err := t.sink.forgetSome(ctx, some, known)
		if found.Add(n); err != nil {
			return found, "", err
		}
	}
	return found, next, nil
}

// RaiseHorizon implements replicator.Forgetter. In a cluster, no states are removed, so there are no horizons.
func (t *Target) RaiseHorizon(ctx context.Context, horizon int64) error {
	if t.sink.cluster {
		return nil
	}
	for range maxTries {
		marks, err := t.sink.readMarks(ctx, t.source)
		if err != nil {
			return err
		}
		known, err := t.sink.readRegistry(ctx)
		if err != nil {
			return err
		}
		var raised []string
		for _, k := range t.keepers {
			m := marks[k.view.Name]
			if m == nil {
				continue
			}
			mark, ok := m.whole()
			if !ok || mark.Generation != k.generation || mark.Standing().Filling() {
				continue
			}
			if is := min(horizon, mark.Order); is > known.horizon(k.id, k.generation) {
				field := horizonField(k.id, k.generation)
				raised = append(raised, field, known.fields[field], strconv.FormatInt(is, 10))
			}
		}
		if len(raised) == 0 {
			return nil
		}
		if _, changed, err := t.sink.changeRegistry(ctx, known, raised); err != nil {
			return err
		} else if changed {
			return t.learn(ctx)
		}
	}
	return fmt.Errorf("storing the log position below which states of deleted cells are removed: other replicators "+
		"changed the key %s during each of %d attempts", registryKey, maxTries)
}

// forgettables decides which cells may be removed from records. In a cluster, none may.
type forgettables struct {
	*registry
	generations map[viewID]uint64 // by view: its current generation (states of an earlier definition have a lower one)
}

func (s *Sink) forgettables(ctx context.Context) (*forgettables, error) {
	g, err := s.readRegistry(ctx)
	if err != nil {
		return nil, err
	}
	f := &forgettables{g, map[viewID]uint64{}}
	if s.cluster {
		return f, nil
	}
	sources, err := s.Sources(ctx)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		marks, err := s.readMarks(ctx, source)
		if err != nil {
			return nil, err
		}
		for view, m := range marks {
			if mark, ok := m.whole(); ok {
				f.generations[idOf(source, view)] = mark.Generation
			}
		}
	}
	return f, nil
}

// removable reports whether all states of a cell may be removed. Each state must say that the cell is deleted and
// contributes nothing. A state of the view's current generation (definition) must also be below the view's horizon.
func (f *forgettables) removable(c *cellRecord) bool {
	for i := range c.views {
		v := &c.views[i]
		generation, is := f.generations[v.id]
		if !is || v.generation > generation || v.claims != "" {
			return false
		}
		horizon := f.horizon(v.id, v.generation)
		if v.generation < generation {
			horizon = int64(^uint64(0) >> 1)
		}
		if known := (judge.Known{State: v.state}); !known.Forgettable(horizon) {
			return false
		}
	}
	return true
}

func (c *cellRecord) gone() bool {
	for i := range c.views {
		if v := &c.views[i]; v.claims != "" || v.state.Version != replicator.NoVersion {
			return false
		}
	}
	return true
}

func (s *Sink) forgetSome(
	ctx context.Context, keys []string, known *forgettables,
) (found replicator.GoneCells, err error) {
	records, err := s.records(ctx, keys)
	if err != nil {
		return found, err
	}
	var changed []string
	var args []any // two for each changed record: its nonce, which reveals writes by others, and the new record
	for i, r := range records {
		cells := len(r.cells)
		if r.nonce == "" || len(r.pending) > 0 {
			continue
		}
		r.cells = slices.DeleteFunc(r.cells, func(c cellRecord) bool {
			may := known.removable(&c)
			if !may && c.gone() {
				found.Remembered++
			}
			return may
		})
		if len(r.cells) == cells {
			continue
		}
		stored := ""
		if len(r.cells) > 0 {
			nonce := make([]byte, nonceSize)
			rand.Read(nonce)
			stored = string(r.append(nonce))
		}
		found.Forgotten += cells - len(r.cells)
		changed, args = append(changed, keys[i]), append(args, r.nonce, stored)
	}
	var calls []call
	for i := 0; i < len(changed); i += callEntities {
		end := min(i+callEntities, len(changed))
		calls = append(calls, newCall(changed[i:end], args[2*i:2*end]...))
	}
	if len(calls) == 0 {
		return found, nil
	}
	// The script skips records that another process has changed meanwhile. The count includes them nevertheless, because
	// it is only logged.
	if _, err := s.run(ctx, s.forgetGone, calls); err != nil {
		return found, classify(err, "removing the states of deleted cells")
	}
	return found, nil
}
