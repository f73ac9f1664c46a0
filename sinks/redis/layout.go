package redis

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"

	"replicator"
	"replicator/internal/wire"
	"replicator/sinks/judge"
)

// Records of a view differ only in a few values, such as the version and the log position. What they share (the table,
// the views, the fields' names, how keys are made from the entity's key) is a layout. The registry stores each layout
// once, by an id. A record in compact form has the id, and the values that the layout leaves open:
//
//	8 bytes    nonce
//	1 byte     compactFormat
//	4 bytes    the layout's id
//	values     in the order in which the layout needs them
//
// A record has the full form instead (see record) in a cluster, or if its layout is not registered.

const (
	compactFormat = 2
	layoutIDSize  = 4
)

// layoutID returns the id of a layout: the first bytes of its SHA-256. So an id never gets another meaning, even if all
// stored layouts are lost and made again.
func layoutID(layout string) string {
	sum := sha256.Sum256([]byte(layout))
	return string(sum[:layoutIDSize])
}

// errNoLayout means that this process does not know a record's layout (the part that many records share). Another
// process may have added it to the registry since, or another program removed it there.
var errNoLayout = errors.New("its record can't be read, because another program removed or changed the key " +
	registryKey + ", which has the common parts of records: " + startOver)

// layouts holds the layouts (common parts of records) that this process knows, by id. No layout is ever removed. It is
// safe for concurrent use. A nil layouts is empty.
type layouts struct {
	mu sync.RWMutex
	of map[string]string
}

func (l *layouts) get(id string) (string, bool) {
	if l == nil {
		return "", false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	layout, ok := l.of[id]
	return layout, ok
}

func (l *layouts) add(id, layout string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]string{}
	}
	l.of[id] = layout
}

func (l *layouts) lost(g *registry) (lost []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, layout := range l.of {
		if g.ids[layout] == "" {
			lost = append(lost, layout)
		}
	}
	return lost
}

// lay splits the entities' new records into layouts (the parts that many records share) and values. It registers
// layouts that several records need.
func (t *Target) lay(ctx context.Context, b *batch, entities []*entity) error {
	if b.cluster || b.registry == nil { // a target that only removes contributions starts without a registry
		return nil
	}
	var unknown []string
	for _, e := range entities {
		layout, values, ok := e.plan.record.compact(b.layoutBuffer[:0], b.bytes.take(64), e.text)
		b.layoutBuffer = layout
		if e.layout, e.id, e.values = "", "", b.keep(values); !ok {
			continue
		}
		if e.id = b.registry.id(textOf(layout)); e.id == "" {
			e.layout = b.keep(append(b.bytes.take(len(layout)), layout...))
			unknown = append(unknown, e.layout)
		}
	}
	shared := t.proposals.repeated(unknown, time.Now())
	if len(shared) == 0 {
		return nil
	}
	g, added, err := t.sink.registerLayouts(ctx, b.registry, shared)
	if err != nil || !added {
		return err
	}
	t.keepRegistry(g)
	b.registry = g
	for _, e := range entities {
		if e.id == "" && e.layout != "" {
			e.id = g.id(e.layout)
		}
	}
	return nil
}

// With these codes, a layout (the part that many records share) says where to find each state, key and text (a member
// or an amount) of a record.
const (
	layoutValue = 0 // a state, a key or a text: it is among the record's own values

	layoutSame = 1 // a state: it equals the state before it in the record
	layoutAsOf = 2 // a state: it is among the record's own values. Its as-of equals its order, and is stored as 0.

	layoutBegin = 1 // a key: the layout has its beginning, and the entity's key is the rest

	layoutText   = 1 // a text: it is in the layout
	layoutEntity = 3 // a text: it is the entity's key
)

// compact appends the record's layout to layout, and its values to values. It reports false if the record needs the
// full form.
func (r *record) compact(layout, values []byte, entity string) (l, v []byte, ok bool) {
	if r.revision != 0 || len(r.pending) > 0 {
		return layout, values, false
	}
	w := compacter{layout: binary.AppendUvarint(layout, uint64(len(r.cells))), values: values, entity: entity}
	var last replicator.State
	for i := range r.cells {
		c := &r.cells[i]
		w.layout = wire.AppendText(wire.AppendText(w.layout, c.cell.Table), c.cell.Column)
		w.key(c.cell.Key)
		w.layout = binary.AppendUvarint(w.layout, uint64(len(c.views)))
		for j := range c.views {
			view := &c.views[j]
			w.layout = binary.AppendUvarint(append(w.layout, view.id...), view.generation)
			w.state(view.state, last, i+j > 0)
			last = view.state
			if !w.claims(view.claims) {
				return w.layout, w.values, false
			}
		}
	}
	return w.layout, w.values, true
}

type compacter struct {
	layout, values []byte
	entity         string
	scratch        [64]byte
}

// key writes a cell's key. If the types of the key's values and the entity's text suffice to restore the key, key only
// writes the types, to the layout. Otherwise it writes the key to the values.
func (w *compacter) key(k replicator.Key) {
	var kinds [8]byte
	list := k.AppendKinds(kinds[:0])
	again, ok := replicator.AppendKey(w.scratch[:0], textOf(list), w.entity)
	if !ok || string(again) != string(k) {
		w.layout = wire.AppendText(w.layout, "")
		w.values = wire.AppendText(w.values, string(k))
		return
	}
	w.layout = wire.AppendText(w.layout, textOf(list))
}

func (w *compacter) state(s, last replicator.State, hasLast bool) {
	where := byte(layoutValue)
	switch {
	case hasLast && s == last:
		w.layout = append(w.layout, layoutSame)
		return
	case s.AsOf == s.Order:
		where, s.AsOf = layoutAsOf, 0
	}
	w.layout, w.values = append(w.layout, where), judge.AppendState(w.values, s)
}

// claims writes what a cell contributes to a view, and ends the layout's part of it with a zero. `stored` is the
// contribution, as encoded by appendClaims. If `stored` is damaged, claims reports false.
func (w *compacter) claims(stored string) bool {
	in := wire.NewReader(stored)
	for in.More() {
		kind := in.Byte()
		w.layout = append(w.layout, kind)
		w.claimKey(kind, in.Text())
		if kind != kindHash && kind != kindJSON {
			w.text(in.Text())
			w.text(in.Text())
			continue
		}
		w.values = append(w.values, in.Bytes(digestSize)...)
		kept, n := in.Byte(), in.Count()
		w.layout = binary.AppendUvarint(append(w.layout, kept), n)
		for ; n > 0 && !in.Bad(); n-- {
			w.layout = wire.AppendText(w.layout, in.Text())
			if kept != 0 {
				w.values = wire.AppendText(w.values, in.Text())
			}
		}
	}
	w.layout = append(w.layout, 0)
	return !in.Bad()
}

// claimKey writes the key that a claim (a contribution to a view) is at. The key of a hash or a JSON object mostly ends
// in the entity's key, which is then left out.
func (w *compacter) claimKey(kind byte, key string) {
	if begin, ends := strings.CutSuffix(key, w.entity); ends && w.entity != "" && (kind == kindHash || kind == kindJSON) {
		w.layout = wire.AppendText(append(w.layout, layoutBegin), begin)
		return
	}
	w.layout, w.values = append(w.layout, layoutValue), wire.AppendText(w.values, key)
}

// text writes a member or an amount. If it is empty, "1" or the entity's key, the layout says so; otherwise it is among
// the values.
func (w *compacter) text(s string) {
	switch s {
	case "", "1":
		w.layout = wire.AppendText(append(w.layout, layoutText), s)
	case w.entity:
		w.layout = append(w.layout, layoutEntity)
	default:
		w.layout, w.values = append(w.layout, layoutValue), wire.AppendText(w.values, s)
	}
}

// expander restores a record from the layout and the values that a compacter wrote.
type expander struct {
	*arena
	layout, values wire.Reader
	entity         string
}

// expand reads a record's cells. It reports false if the record is damaged.
func (in *expander) expand(r *record) bool {
	n := in.layout.Count()
	r.cells = in.cells.grow(r.cells, min(n, few))
	var last replicator.State
	for ; n > 0 && !in.layout.Bad(); n-- {
		c := cellRecord{cell: replicator.Cell{Table: in.layout.Text(), Column: in.layout.Text(), Key: in.key()}}
		n := in.layout.Count()
		c.views = in.views.grow(c.views, min(n, few))
		for ; n > 0 && !in.layout.Bad(); n-- {
			v := viewRecord{id: viewID(in.layout.Bytes(viewIDSize)), generation: in.layout.Uvarint(), state: in.state(last)}
			last = v.state
			v.claims = in.readClaims()
			c.views = append(c.views, v)
		}
		r.cells = append(r.cells, c)
	}
	return !in.layout.Bad() && !in.layout.More() && !in.values.Bad() && !in.values.More()
}

func (in *expander) key() replicator.Key {
	kinds := in.layout.Text()
	if kinds == "" {
		return replicator.Key(in.values.Text())
	}
	key, ok := replicator.AppendKey(in.bytes.take(len(in.entity)+16*len(kinds)), kinds, in.entity)
	if !ok {
		in.layout.Fail()
	}
	return replicator.Key(in.keep(key))
}

func (in *expander) state(last replicator.State) replicator.State {
	where := in.layout.Byte()
	if where == layoutSame {
		return last
	}
	s := judge.ReadState(&in.values)
	if where == layoutAsOf {
		s.AsOf = s.Order
	}
	return s
}

// readClaims reads what a cell contributes to a view, and returns it encoded as appendClaims does.
func (in *expander) readClaims() string {
	b := in.bytes.take(96 + len(in.entity))
	for kind := in.layout.Byte(); kind != 0; kind = in.layout.Byte() {
		b = append(b, kind)
		if in.layout.Byte() == layoutBegin {
			begin := in.layout.Text()
			b = binary.AppendUvarint(b, uint64(len(begin)+len(in.entity)))
			b = append(append(b, begin...), in.entity...)
		} else {
			b = wire.AppendText(b, in.values.Text())
		}
		if kind != kindHash && kind != kindJSON {
			b = wire.AppendText(wire.AppendText(b, in.text()), in.text())
			continue
		}
		b = append(b, in.values.Bytes(digestSize)...)
		kept, n := in.layout.Byte(), in.layout.Count()
		b = binary.AppendUvarint(append(b, kept), n)
		for ; n > 0 && !in.layout.Bad(); n-- {
			b = wire.AppendText(b, in.layout.Text())
			if kept != 0 {
				b = wire.AppendText(b, in.values.Text())
			}
		}
	}
	return in.keep(b)
}

func (in *expander) text() string {
	switch in.layout.Byte() {
	case layoutText:
		return in.layout.Text()
	case layoutEntity:
		return in.entity
	}
	return in.values.Text()
}
