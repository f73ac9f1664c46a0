package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"

	"github.com/redis/go-redis/v9"

	"replicator/internal/wire"
)

//go:embed lib.lua
var library string

//go:embed apply.lua
var applySource string

// The limits of one script call. The server does one thing at a time, and other clients must not wait for long.
const (
	callEntities = 128
	callArgs     = 4000
	callBytes    = 1 << 20
)

// writing builds a call of apply.lua. keys has pointers to strings, because converting a string to `any` copies it to
// the heap.
type writing struct {
	entities     []*entity
	keys         []any
	args         list
	nonces       []byte
	shapes       map[string]int // by encoded shape (see shape): its number, from 1 on
	shapeOf      []int          // by entity: the number of its shape
	encodedShape []byte
	common       list // all shapes, as the script takes them
}

// write runs the script that replaces the entities' records and changes the views' keys. It returns the entities that
// it did not write: their changes must be planned again.
func (s *Sink) write(ctx context.Context, b *batch, entities []*entity) (again map[*entity]bool, err error) {
	switch {
	case len(entities) == 0:
		return nil, nil
	case s.cluster:
		return s.writeInCluster(ctx, b, entities)
	}
	store(&b.arena, entities)
	w := &b.writing
	var calls []call
	var written [][]*entity
	for rest := entities; len(rest) > 0; rest = rest[len(w.entities):] {
		w.fill(&b.arena, rest)
		calls, written = append(calls, w.finish(&b.arena, b.registry.number())), append(written, w.entities)
	}
	cmds, err := s.run(ctx, s.apply, calls)
	if err != nil {
		return nil, classify(err, "applying")
	}
	again = map[*entity]bool{}
	var wrong []wrongKey
	for i, cmd := range cmds {
		some, behind, err := results(cmd, written[i], again)
		b.behind = b.behind || behind
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, some...)
	}
	return again, s.settle(ctx, wrong)
}

// store encodes the entities' new records, each with a new nonce.
func store(a *arena, entities []*entity) {
	nonces := a.bytes.take(nonceSize * len(entities))[:nonceSize*len(entities)]
	rand.Read(nonces)
	ends := make([]int, len(entities))
	b := a.bytes.take(256 * len(entities)) // most records are smaller
	for i, e := range entities {
		b = append(b, nonces[i*nonceSize:(i+1)*nonceSize]...)
		if e.id != "" {
			b = append(append(append(b, compactFormat), e.id...), e.values...)
		} else {
			b = e.plan.record.append(b)
		}
		ends[i] = len(b)
	}
	text, from := a.keep(b), 0
	for i, e := range entities {
		e.next, from = text[from:ends[i]], ends[i]
	}
}

// fill begins a new script call, for as many of the entities as fit into it.
func (w *writing) fill(a *arena, entities []*entity) {
	clear(w.shapes)
	w.keys, w.nonces, w.shapeOf = w.keys[:0], w.nonces[:0], w.shapeOf[:0]
	w.common.begin(w.common.text)
	n, args, bytes := 0, 0, 0
	for n < len(entities) && n < callEntities && args < callArgs && bytes < callBytes {
		e := entities[n]
		w.keys = append(w.keys, &e.key)
		w.nonces = append(w.nonces, cmp.Or(e.plan.record.nonce, noNonce)...)
		w.shapeOf = append(w.shapeOf, w.shape(&e.plan))
		bytes += len(e.next) + nonceSize + 2*listHead
		for i := range e.plan.changes {
			ch := &e.plan.changes[i]
			args += len(ch.args)
			for j, a := range ch.args {
				if !ch.common(j) {
					bytes += len(a) + listHead
				}
			}
		}
		n++
	}
	w.entities = entities[:n]
	w.args.begin(a.bytes.take(bytes + len(w.nonces) + len(w.common.text) + 4*listHead))
	w.args.addBytes(w.nonces)
	w.args.addNumber(len(w.shapes))
	w.args.addAll(&w.common)
	for _, e := range w.entities {
		w.args.addText(e.next)
	}
	for i, e := range w.entities {
		w.args.addNumber(w.shapeOf[i])
		w.add(e.plan.changes)
	}
}

// noNonce is what the script takes as the nonce (the first bytes of a record) of a record that doesn't exist.
const noNonce = "\x00\x00\x00\x00\x00\x00\x00\x00"

// add adds the keys of an entity's changes to the script call, and the arguments that differ between entities (see
// common).
func (w *writing) add(changes []change) {
	for i := range changes {
		ch := &changes[i]
		w.keys = append(w.keys, &ch.key)
		if other := beside(ch.kind, ch.key); other != "" {
			w.keys = append(w.keys, other)
		}
		for j, a := range ch.args {
			if !ch.common(j) {
				w.args.addText(a)
			}
		}
	}
}

// common reports whether the argument with the index `arg` belongs to the shape, because it is the same for many
// entities. The names of a hash's fields do, but not the values. Whether a member is added or removed does, but not the
// member.
func (ch *change) common(arg int) bool {
	switch ch.kind {
	case kindHash:
		return arg%2 == 1 || arg == 0 || arg > 2*ch.fields
	case kindSet, kindMembers, kindUnique:
		return arg%2 == 1
	}
	return false
}

// shape returns the number of a plan's shape: the changes without their keys, and without the arguments that differ
// between entities (see common). The script call has each shape only once, for all entities with that shape.
func (w *writing) shape(p *plan) int {
	w.encodedShape = w.encodedShape[:0]
	// The script can't undo a change of a hash. So before it changes anything, it checks the key's type for each change
	// of a hash that must succeed (`strict`). The first one needs no check: if it fails, there is none to undo.
	firstHash := true
	for i := range p.changes {
		ch := &p.changes[i]
		how := byte(0)
		if ch.strict {
			how = mustSucceed
		}
		if unchecked := ch.kind == kindSet && !p.meet || ch.kind == kindHash && (firstHash || !ch.strict); !unchecked {
			how |= isLookedAt
		}
		firstHash = firstHash && !(ch.kind == kindHash && ch.strict)
		w.encodedShape = wire.AppendText(append(w.encodedShape, how, ch.kind), ch.goes.text())
		w.encodedShape = binary.AppendUvarint(w.encodedShape, uint64(len(ch.args)))
		for j, a := range ch.args {
			if ch.common(j) {
				w.encodedShape = wire.AppendText(w.encodedShape, a)
			}
		}
	}
	n, known := w.shapes[string(w.encodedShape)]
	if known {
		return n
	}
	n = len(w.shapes) + 1
	w.shapes[string(w.encodedShape)] = n
	w.addShape(p.changes)
	return n
}

// addShape adds w.encodedShape to w.common, in the form that the script takes.
func (w *writing) addShape(changes []change) {
	in := wire.NewReader(string(w.encodedShape))
	w.common.addNumber(len(changes))
	for i := range changes {
		ch := &changes[i]
		w.common.addNumber(int(in.Byte()))
		w.common.addText(string(rune(in.Byte())))
		w.common.addText(in.Text())
		w.common.addNumber(int(in.Uvarint()))
		for j := range ch.args {
			if ch.common(j) {
				w.common.addText("=" + in.Text())
			} else {
				w.common.addText("?")
			}
		}
	}
}

// Bits that tell apply.lua how to make a change. With mustSucceed, a key of another type is an error. With isLookedAt,
// the script checks the key's type before it changes anything.
const (
	mustSucceed = 1 << iota
	isLookedAt
)

// finish returns the completed script call. `registry` is the version of the registry that the call's changes were
// planned with. If the server has another version, the script does nothing.
func (w *writing) finish(a *arena, registry string) call {
	c := call(a.values.take(6 + len(w.keys))[:3])
	c[2] = len(w.keys) + 1
	return append(append(c, w.keys...), registryKey, w.args.end(), registry)
}

// results reads the script's answer to a call. `again` gets the entities that were not written. wrong are the keys that
// can't show a contribution. behind: the registry has changed, so nothing was written.
func results(cmd *redis.Cmd, entities []*entity, again map[*entity]bool) (wrong []wrongKey, behind bool, err error) {
	undone, err := cmd.Slice()
	if err != nil {
		return nil, false, classify(err, "applying")
	}
	if len(undone) == 1 {
		for _, e := range entities {
			again[e] = true
		}
		return nil, true, nil
	}
	for ; len(undone) >= 3; undone = undone[3:] {
		n, ok := undone[0].(int64)
		at, ok2 := undone[1].(int64)
		found, ok3 := undone[2].(string)
		if !ok || !ok2 || !ok3 || n < 0 || int(n) >= len(entities) || at < 0 || int(at) > len(entities[n].plan.changes) {
			return nil, false, errors.New("the script returned an unexpected answer")
		}
		e := entities[n]
		again[e] = true
		switch at {
		case 0:
			e.stored, e.assumed = found, false
		default:
			wrong = append(wrong, wrongKey{e, e.plan.changes[at-1].viewKey, found})
		}
	}
	return wrong, false, nil
}
