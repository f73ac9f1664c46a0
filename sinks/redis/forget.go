package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"replicator"
	"replicator/sinks/judge"
)

// Deleted cells are forgotten on one server only. The horizons are in a hash of the sink's own, by the view's id in
// records and its generation. The hash also has a number that changes whenever a horizon does. A batch is decided by
// the horizons that the target read last, and the script that writes it does nothing if the number has changed. So
// nothing can be forgotten unnoticed between decision and write. In a cluster the hash and the records are on different
// nodes.

var _ replicator.Forgetter = (*Target)(nil)

//go:embed forget.lua
var forgetSource string

// horizonsKey is the hash of horizons.
const horizonsKey = prefix + "horizons"

// horizonsVersion is the field of the number that changes with the horizons. No view's field has that length.
const horizonsVersion = "version"

// horizons are the horizons of all views.
type horizons struct {
	version string            // "": there are none yet
	fields  map[string]string // as they are stored
}

func horizonField(id viewID, generation uint64) string {
	return fmt.Sprintf("%x:%d", string(id), generation)
}

// of is the horizon of a view in a generation; 0 if there is none. h may be nil.
func (h *horizons) of(id viewID, generation uint64) int64 {
	if h == nil || len(h.fields) == 0 {
		return 0
	}
	order, err := strconv.ParseInt(h.fields[horizonField(id, generation)], 10, 64)
	if err != nil {
		return 0
	}
	return order
}

// number is the version. h may be nil.
func (h *horizons) number() string {
	if h == nil {
		return ""
	}
	return h.version
}

func (s *Sink) readHorizons(ctx context.Context) (*horizons, error) {
	if s.cluster {
		return &horizons{}, nil
	}
	fields, err := s.rdb.HGetAll(ctx, horizonsKey).Result()
	if err != nil {
		return nil, classify(err, "reading the horizons")
	}
	return &horizons{fields[horizonsVersion], fields}, nil
}

// learnHorizons reads the horizons of the target's keepers. Keepers that only take back contributions have none: what
// they apply has no log position.
func (t *Target) learnHorizons(ctx context.Context) error {
	h, err := t.sink.readHorizons(ctx)
	if err != nil {
		return err
	}
	if t.reclaims {
		h.fields = nil
	}
	t.horizons.Store(h)
	return nil
}

// ForgetGone implements replicator.Forgetter. In a cluster it only counts.
func (t *Target) ForgetGone(
	ctx context.Context, horizon int64, after string, limit int,
) (found replicator.GoneCells, next string, err error) {
	if after == "" && !t.sink.cluster {
		if err := t.raiseHorizons(ctx, horizon); err != nil {
			return found, "", err
		}
	}
	keys, next, err := t.sink.scan(ctx, recordKey(""), "", after, limit)
	if err != nil {
		return found, "", classify(err, "looking through the records")
	}
	known, err := t.sink.forgettables(ctx)
	if err != nil {
		return found, "", err
	}
	for some := range slices.Chunk(keys, callEntities) {
		n, err := t.sink.forgetSome(ctx, some, known)
		if found.Add(n); err != nil {
			return found, "", err
		}
	}
	return found, next, nil
}

// raiseHorizons raises the horizons of the target's filled views, each up to its mark.
func (t *Target) raiseHorizons(ctx context.Context, horizon int64) error {
	for range maxTries {
		marks, err := t.sink.readMarks(ctx, t.source)
		if err != nil {
			return err
		}
		known, err := t.sink.readHorizons(ctx)
		if err != nil {
			return err
		}
		version, err := strconv.ParseUint("0"+known.version, 10, 64)
		if err != nil {
			return replicator.Fatal(fmt.Errorf("the key %s is damaged: delete it, and then "+
				"`replicator verify --repair`", horizonsKey))
		}
		// Never an earlier number, even if the hash was lost meanwhile.
		next := max(version+1, uint64(time.Now().UnixMicro()))
		c := newCall([]string{horizonsKey}, "", horizonsVersion, known.version, strconv.FormatUint(next, 10))
		raised := false
		for _, k := range t.keepers {
			m := marks[k.view.Name]
			if m == nil {
				continue
			}
			mark, ok := m.whole()
			if !ok || mark.Generation != k.generation || mark.Standing().Filling() {
				continue
			}
			was, is := known.of(k.id, k.generation), min(horizon, mark.Order)
			if is > was {
				field := horizonField(k.id, k.generation)
				c, raised = append(c, field, known.fields[field], strconv.FormatInt(is, 10)), true
			}
		}
		if !raised {
			return nil
		}
		cmds, err := t.sink.run(ctx, t.sink.swapMarks, []call{c})
		if err != nil {
			return classify(err, "raising the horizons")
		}
		answer, err := cmds[0].Slice()
		if err != nil || len(answer) == 0 {
			return classify(err, "raising the horizons")
		}
		if answer[0] == int64(1) {
			return t.learnHorizons(ctx)
		}
	}
	return fmt.Errorf("other replicators raise the horizons all the time")
}

// forgettables decides what records may forget: nothing in a cluster.
type forgettables struct {
	*horizons
	generations map[viewID]uint64 // that count
}

func (s *Sink) forgettables(ctx context.Context) (*forgettables, error) {
	h, err := s.readHorizons(ctx)
	if err != nil {
		return nil, err
	}
	f := &forgettables{h, map[viewID]uint64{}}
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

// may reports whether a cell can be forgotten: no view that knows the cell needs it. An earlier generation of a view
// counts only if the cell is not gone, or shows something.
func (f *forgettables) may(c *cellRecord) bool {
	for i := range c.views {
		v := &c.views[i]
		generation, is := f.generations[v.id]
		if !is || v.generation > generation || v.claims != "" {
			return false
		}
		horizon := f.of(v.id, v.generation)
		if v.generation < generation {
			horizon = int64(^uint64(0) >> 1)
		}
		if known := (judge.Known{State: v.state}); !known.Forgettable(horizon) {
			return false
		}
	}
	return true
}

// gone reports whether a cell is gone from all views that know it.
func (c *cellRecord) gone() bool {
	for i := range c.views {
		if v := &c.views[i]; v.claims != "" || v.state.Version != replicator.NoVersion {
			return false
		}
	}
	return true
}

// forgetSome removes forgettable cells from some records.
func (s *Sink) forgetSome(
	ctx context.Context, keys []string, known *forgettables,
) (found replicator.GoneCells, err error) {
	records, err := s.records(ctx, keys)
	if err != nil {
		return found, err
	}
	var changed []string
	var args []any
	for i, r := range records {
		cells := len(r.cells)
		if r.nonce == "" || len(r.pending) > 0 {
			continue
		}
		r.cells = slices.DeleteFunc(r.cells, func(c cellRecord) bool {
			may := known.may(&c)
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
	if len(changed) == 0 {
		return found, nil
	}
	// Records that another batch has changed meanwhile stay, and are counted anyway: the count is only logged.
	if _, err := s.run(ctx, s.forgetGone, []call{newCall(changed, args...)}); err != nil {
		return found, classify(err, "forgetting cells that are gone")
	}
	return found, nil
}
