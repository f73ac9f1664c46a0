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

// The registry is a hash among the sink's own keys. It has the layouts of records (layout.go), the horizons of deleted
// cells (forget.go), and a version that changes whenever another field does. A script writes a batch only if the
// version is still the one that the batch was decided by. A cluster has none, because records are on different nodes.

const (
	registryKey = prefix + "registry"

	// registryVersion is the name of the field with the registry's version.
	registryVersion = "version"

	// layoutField begins the name of a registry field that has a layout (the part that many records share). The
	// layout's id follows, in hexadecimal digits.
	layoutField = "layout:"

	// layoutBytes is how many bytes all layouts of a registry may take. Beyond it, a record that needs another layout
	// is stored in full, without one. A layout takes 100 to 300 bytes.
	layoutBytes = 4 << 20
)

// registry is the key replicator:registry as it was read from the server. A value of this type never changes.
type registry struct {
	version    string // changes whenever another field does; "": the server has no registry yet
	fields     map[string]string
	ids        map[string]string // by layout: its id
	layoutSize int
	horizons   map[definition]int64
}

func newRegistry(fields map[string]string) *registry {
	g := &registry{version: fields[registryVersion], fields: fields, ids: map[string]string{},
		horizons: map[definition]int64{}}
	for name, value := range fields {
		if of, is := parseHorizonField(name); is {
			if order, err := strconv.ParseInt(value, 10, 64); err == nil {
				g.horizons[of] = order
			}
		}
		if digits, is := strings.CutPrefix(name, layoutField); is {
			// The id of a layout (the part that many records share) is a hash of the layout. If the hash differs,
			// another program changed the layout: no record must be parsed by it.
			if id, err := hex.DecodeString(digits); err == nil && layoutID(value) == string(id) {
				g.ids[value] = string(id)
				g.layoutSize += len(value)
			}
		}
	}
	return g
}

func (g *registry) id(layout string) string {
	if g == nil {
		return ""
	}
	return g.ids[layout]
}

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

// learn reads the registry, and puts back layouts that this process knows and the server has lost, as after a failover
// to a replica that lagged behind.
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

// keepRegistry makes the target use a registry. A target that only removes contributions ignores the horizons (log
// positions below which states are removed), because its ops have no real log position.
func (t *Target) keepRegistry(g *registry) {
	if t.reclaims {
		g = &registry{version: g.version, ids: g.ids, layoutSize: g.layoutSize}
	}
	t.registry.Store(g)
}

// registerLayouts adds layouts to the stored registry, and returns the registry with them. If another process has
// changed the stored one since g was read, nothing is added.
func (s *Sink) registerLayouts(
	ctx context.Context, g *registry, layouts []string,
) (_ *registry, added bool, err error) {
	var fields []string
	bytes := g.layoutSize
	for _, layout := range layouts {
		name := layoutField + hex.EncodeToString([]byte(layoutID(layout)))
		if _, taken := g.fields[name]; taken || bytes+len(layout) > layoutBytes {
			continue
		}
		bytes += len(layout)
		fields = append(fields, name, "", strings.Clone(layout)) // the layout is in the batch's memory, which is reused
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

// changeRegistry changes fields of the stored registry, unless it has changed since g was read. Each field is three
// strings: its name, the value that was read ("" for none), and the new value.
func (s *Sink) changeRegistry(ctx context.Context, g *registry, fields []string) (version string, ok bool, err error) {
	was, err := strconv.ParseUint("0"+g.version, 10, 64)
	if err != nil {
		return "", false, replicator.Fatal(fmt.Errorf("the field %[2]s of the key %[1]s is damaged: remove it with "+
			"`HDEL %[1]s %[2]s`, and then run `replicator verify --repair`", registryKey, registryVersion))
	}
	// The new version is above every earlier one, even if the hash was lost meanwhile.
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

// parse parses an entity's record. If it doesn't know the record's layout, it reads the registry, because another
// process may have added the layout.
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

// proposals remembers layouts (parts that many records share) that records need and the registry lacks. It is safe for
// concurrent use.
type proposals struct {
	mu        sync.Mutex
	seen      map[string]bool
	notBefore time.Time
}

// maxProposals is about how many layouts a value of type proposals remembers.
const maxProposals = 1000

// repeated remembers layouts that the registry lacks. It returns those that it got at least twice, in one call or in
// several: the caller registers them. After each change of the registry, batches under way must be decided again. So
// repeated returns layouts about once a second; after a pause, up to ten times in a row.
func (p *proposals) repeated(layouts []string, now time.Time) (twice []string) {
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
	if len(twice) == 0 || now.Before(p.notBefore) {
		return nil
	}
	if earliest := now.Add(-10 * time.Second); p.notBefore.Before(earliest) {
		p.notBefore = earliest
	}
	p.notBefore = p.notBefore.Add(time.Second)
	return twice
}
