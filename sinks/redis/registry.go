package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"replicator"
)

// The registry is a hash of the sink's own, on one server. It holds the horizons (forget.go) and the layouts of records
// (layout.go), and a number that changes whenever anything else in it does. A batch is decided and written by the
// registry that the target read last. The script that writes it does nothing if the number has changed. So no horizon
// rises unnoticed between decision and write, and no record has a layout that the server lost. In a cluster, where the
// registry and the records are on different nodes, there is none.

const (
	registryKey = prefix + "registry"

	// registryVersion is the field of the number. No other field has that length.
	registryVersion = "version"

	// layoutField is what the fields of layouts begin with. The rest is the id, in hexadecimal digits.
	layoutField = "layout:"

	// layoutBytes is how much all layouts of a registry may take. Beyond it, records with other layouts have the full
	// form. A layout of a view takes 100 to 300 bytes.
	layoutBytes = 4 << 20
)

// registry is a registry as it was read. It never changes.
type registry struct {
	version string            // "": there is none yet
	fields  map[string]string // as they are stored
	ids     map[string]string // by layout
	bytes   int               // of all layouts
}

// newRegistry makes a registry of stored fields.
func newRegistry(fields map[string]string) *registry {
	g := &registry{version: fields[registryVersion], fields: fields, ids: map[string]string{}}
	for name, value := range fields {
		if digits, is := strings.CutPrefix(name, layoutField); is {
			// An id that the contents don't have was changed by something else. Then no record can be read by it.
			if id, err := hex.DecodeString(digits); err == nil && layoutID(value) == string(id) {
				g.ids[value] = string(id)
				g.bytes += len(value)
			}
		}
	}
	return g
}

// id is the id of a layout; "" if it is not registered. g may be nil.
func (g *registry) id(layout string) string {
	if g == nil {
		return ""
	}
	return g.ids[layout]
}

// number is the version. g may be nil.
func (g *registry) number() string {
	if g == nil {
		return ""
	}
	return g.version
}

func (s *Sink) readRegistry(ctx context.Context) (*registry, error) {
	if s.cluster {
		return &registry{}, nil
	}
	fields, err := s.rdb.HGetAll(ctx, registryKey).Result()
	if err != nil {
		return nil, classify(err, "reading "+registryKey)
	}
	g := newRegistry(fields)
	for layout, id := range g.ids {
		s.layouts.add(id, layout)
	}
	return g, nil
}

// learn reads the registry, and puts back the layouts that it has lost, as after a failover to a replica that lagged
// behind. Targets that only take back contributions have no horizons: what they apply has no log position.
func (t *Target) learn(ctx context.Context) error {
	g, err := t.sink.readRegistry(ctx)
	if err != nil {
		return err
	}
	if g, _, err = t.sink.registerLayouts(ctx, g, t.sink.layouts.lost(g)); err != nil {
		return err
	}
	t.keepRegistry(g)
	return nil
}

func (t *Target) keepRegistry(g *registry) {
	if t.reclaims {
		g = &registry{version: g.version, ids: g.ids, bytes: g.bytes}
	}
	t.registry.Store(g)
}

// registerLayouts adds layouts to a registry, and returns the registry with them. If another process has changed the
// stored one since g was read, nothing is added: records then have the full form until the next time.
func (s *Sink) registerLayouts(
	ctx context.Context, g *registry, layouts []string,
) (_ *registry, added bool, err error) {
	var fields []string
	bytes := g.bytes
	for _, layout := range layouts {
		name := layoutField + hex.EncodeToString([]byte(layoutID(layout)))
		if _, taken := g.fields[name]; taken || bytes+len(layout) > layoutBytes {
			continue
		}
		bytes += len(layout)
		fields = append(fields, name, "", strings.Clone(layout)) // a batch's memory is used again
	}
	if len(fields) == 0 || s.cluster {
		return g, false, nil
	}
	version, changed, err := s.changeRegistry(ctx, g, fields)
	if err != nil || !changed {
		return g, false, err
	}
	all := maps.Clone(g.fields)
	if all == nil {
		all = map[string]string{}
	}
	all[registryVersion] = version
	for i := 0; i < len(fields); i += 3 {
		all[fields[i]] = fields[i+2]
	}
	next := newRegistry(all)
	for layout, id := range next.ids {
		s.layouts.add(id, layout)
	}
	return next, true, nil
}

// changeRegistry changes fields of the stored registry if it still is the one that was read. Of each field are given:
// the name, what was read ("" for nothing), what is to be.
func (s *Sink) changeRegistry(ctx context.Context, g *registry, fields []string) (version string, ok bool, err error) {
	was, err := strconv.ParseUint("0"+g.version, 10, 64)
	if err != nil {
		return "", false, replicator.Fatal(fmt.Errorf("the key %s is damaged: delete it, and then "+
			"`replicator verify --repair`", registryKey))
	}
	// Never an earlier number, even if the hash was lost meanwhile.
	version = strconv.FormatUint(max(was+1, uint64(time.Now().UnixMicro())), 10)
	c := newCall([]string{registryKey}, "", registryVersion, g.version, version)
	for _, field := range fields {
		c = append(c, field)
	}
	const doing = "changing " + registryKey
	cmds, err := s.run(ctx, s.swapMarks, []call{c})
	if err != nil {
		return "", false, classify(err, doing)
	}
	answer, err := cmds[0].Slice()
	if err != nil || len(answer) == 0 {
		return "", false, classify(err, doing)
	}
	return version, answer[0] == int64(1), nil
}

// parse reads an entity's record, whose layout another process may have registered since the registry was read.
func (s *Sink) parse(ctx context.Context, a *arena, stored, entity string) (*record, error) {
	r, err := a.parseRecord(stored, entity, &s.layouts)
	if err != errNoLayout {
		return r, err
	}
	if _, err := s.readRegistry(ctx); err != nil {
		return nil, err
	}
	return a.parseRecord(stored, entity, &s.layouts)
}

// proposals are layouts that a target has met, and that its registry lacks. It is safe for concurrent use.
type proposals struct {
	mu   sync.Mutex
	seen map[string]bool
	next time.Time // when the next layouts may be registered
}

// maxProposals bounds how many layouts are remembered that were met once.
const maxProposals = 1000

// met notes the layouts of a batch's records, and returns those that are worth being registered: they were met twice.
// Each change of the registry makes other batches be decided again, so there is one a second, or ten in a row.
func (p *proposals) met(layouts []string, now time.Time) (twice []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil || len(p.seen) > maxProposals {
		p.seen = map[string]bool{}
	}
	chosen := map[string]bool{}
	for _, layout := range layouts {
		if p.seen[layout] && !chosen[layout] {
			chosen[layout] = true
			twice = append(twice, layout)
		}
		if !p.seen[layout] {
			p.seen[strings.Clone(layout)] = true
		}
	}
	if len(twice) == 0 || now.Before(p.next) {
		return nil
	}
	if earliest := now.Add(-10 * time.Second); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(time.Second)
	return twice
}
