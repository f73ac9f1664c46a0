package redis

import (
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

// The most that one call of a script does, so that other clients never wait for long: the server does one thing at a
// time.
const (
	callEntities = 128
	callArgs     = 4000
	callBytes    = 1 << 20
)

// writing makes a call of the script that applies what was decided. Its arguments are pointers where they can be: a
// text that becomes an `any` is copied to the heap, a pointer to it is not.
type writing struct {
	entities []*entity
	nonces   []byte
	numbers  map[string]int // of shapes
	shapes   []any          // what many entities have in common
	keys     []any
	own      []any // arguments that each entity has
	bytes    int
	text     []byte // for shape to use again
}

// write writes what was decided and returns the entities that must be decided again.
func (s *Sink) write(ctx context.Context, entities []*entity) (again map[*entity]bool, err error) {
	switch {
	case len(entities) == 0:
		return nil, nil
	case s.cluster:
		return s.writeInCluster(ctx, entities)
	}
	store(entities)
	w := writing{numbers: map[string]int{}}
	var calls []call
	var written [][]*entity
	for rest := entities; len(rest) > 0; rest = rest[len(w.entities):] {
		w.take(rest)
		calls, written = append(calls, w.call()), append(written, w.entities)
	}
	cmds, err := s.run(ctx, s.apply, calls)
	if err != nil {
		return nil, classify(err, "applying")
	}
	again = map[*entity]bool{}
	for i, cmd := range cmds {
		if err := results(cmd, written[i], again); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// store makes the stored form of the entities' records, each with a nonce of its own.
func store(entities []*entity) {
	nonces := make([]byte, nonceSize*len(entities))
	rand.Read(nonces)
	ends := make([]int, len(entities))
	b := make([]byte, 0, 256*len(entities)) // most records are smaller
	for i, e := range entities {
		b = e.plan.record.append(append(b, nonces[i*nonceSize:(i+1)*nonceSize]...))
		ends[i] = len(b)
	}
	text, from := string(b), 0
	for i, e := range entities {
		e.next, from = text[from:ends[i]], ends[i]
	}
}

// take begins a call with as many of the entities as may be in one.
func (w *writing) take(entities []*entity) {
	clear(w.numbers)
	w.nonces, w.shapes, w.keys, w.own, w.bytes = nil, w.shapes[:0], w.keys[:0], w.own[:0], 0
	n := 0
	for n < len(entities) && n < callEntities && len(w.shapes)+len(w.own) < callArgs && w.bytes < callBytes {
		w.add(entities[n])
		n++
	}
	w.entities = entities[:n]
}

// add adds an entity's record and changes.
func (w *writing) add(e *entity) {
	p := &e.plan
	if p.record.nonce == "" {
		w.nonces = append(w.nonces, make([]byte, nonceSize)...)
	} else {
		w.nonces = append(w.nonces, p.record.nonce...)
	}
	w.keys = append(w.keys, &e.key)
	w.own = append(w.own, w.shape(p.changes), &e.next)
	w.bytes += len(e.next)
	for i := range p.changes {
		ch := &p.changes[i]
		w.keys = append(w.keys, &ch.key)
		if other := beside(ch.kind, ch.key); other != "" {
			w.keys = append(w.keys, other)
		}
		for j := range ch.args {
			if !ch.common(j) {
				w.own = append(w.own, &ch.args[j])
				w.bytes += len(ch.args[j])
			}
		}
	}
}

// common reports whether an argument is one that the changes of many entities have in common: a field's name, and not
// its value; that somebody is added to a set, and not who.
func (ch *change) common(arg int) bool {
	switch ch.kind {
	case kindHash:
		return arg%2 == 1 || arg == 0 || arg > 2*ch.fields
	case kindSet, kindMembers, kindUnique, kindDead:
		return arg%2 == 1
	}
	return false
}

// shape returns the number of what the changes have in common with those of other entities.
func (w *writing) shape(changes []change) int {
	w.text = w.text[:0]
	for i := range changes {
		ch := &changes[i]
		w.text = binary.AppendUvarint(append(w.text, ch.kind, ch.strictly()), uint64(len(ch.args)))
		for j, a := range ch.args {
			if ch.common(j) {
				w.text = wire.AppendText(w.text, a)
			}
		}
	}
	n, known := w.numbers[string(w.text)]
	if known {
		return n
	}
	n = len(w.numbers)
	w.numbers[string(w.text)] = n
	w.shapes = append(w.shapes, len(changes))
	for i := range changes {
		ch := &changes[i]
		w.shapes = append(w.shapes, string(rune(ch.kind)), string(rune(ch.strictly())), len(ch.args))
		for j, a := range ch.args {
			if ch.common(j) {
				w.shapes = append(w.shapes, "="+a)
				w.bytes += len(a)
			} else {
				w.shapes = append(w.shapes, "?")
			}
		}
	}
	return n
}

func (ch *change) strictly() byte {
	if ch.strict {
		return '1'
	}
	return '0'
}

// call is the call with all that was added.
func (w *writing) call() call {
	c := make(call, 3, 5+len(w.keys)+len(w.shapes)+len(w.own))
	c[2] = len(w.keys)
	c = append(append(c, w.keys...), w.nonces, len(w.numbers))
	return append(append(c, w.shapes...), w.own...)
}

// results notes which of a call's entities were not applied.
func results(cmd *redis.Cmd, entities []*entity, again map[*entity]bool) error {
	undone, err := cmd.Slice()
	if err != nil {
		return classify(err, "applying")
	}
	for ; len(undone) >= 3; undone = undone[3:] {
		n, ok := undone[0].(int64)
		at, ok2 := undone[1].(int64)
		found, ok3 := undone[2].(string)
		if !ok || !ok2 || !ok3 || n < 0 || int(n) >= len(entities) || int(at) > len(entities[n].plan.changes) {
			return errors.New("the script's answer is not understood")
		}
		e := entities[n]
		again[e] = true
		if at > 0 {
			e.block(e.plan.changes[at-1].viewKey, found)
		}
	}
	return nil
}
