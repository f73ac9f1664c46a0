package redis

import (
	"errors"

	"replicator"
	"replicator/sinks/judge"
)

// entity is what a batch does to one entity.
type entity struct {
	key  string // of its record
	text string // its own key, as templates show it
	ops  []int  // by their place in the batch

	stored  string             // what the record held when it was read; "" if there was none
	blocked map[viewKey]string // keys that hold another type, and which
	plan    plan
	next    string // the record that is written, in its stored form
}

// viewKey is a key as one view uses it.
type viewKey struct {
	id   viewID
	kind byte
	key  string
}

// plan is what has to be done to an entity, decided on what its record held.
type plan struct {
	record  *record // as it is to be
	changed bool    // it is another than it was
	changes []change
}

// change is what happens to one key.
type change struct {
	viewKey
	strict bool // something is added: another type at the key is an error
	fields int  // of a hash: how many are set
	args   []string
}

// move is a cell's contribution to a view that is replaced.
type move struct {
	k        *keeper
	cell     replicator.Cell
	old, new []claim
	rewrite  bool // also where nothing changes: somebody may have changed it by hand
}

// errNewer: another process has begun a later generation of the view.
var errNewer = errors.New("another replicator has forgotten or redefined the view since this one opened it")

// batch is what the entities of a batch are decided by.
type batch struct {
	*judge.Batch
	keepers []*keeper
	ops     []replicator.Op
	cluster bool // keys and records live apart

	moves []move // for decide to use again
	text  []byte
}

func (t *Target) newBatch(ops []replicator.Op) *batch {
	return &batch{Batch: judge.NewBatch(ops), keepers: t.keepers, ops: ops, cluster: t.sink.cluster}
}

// decide plans what the batch does to the entity.
func (e *entity) decide(b *batch) error {
	r, err := parseRecord(e.stored)
	if err != nil {
		return replicator.Fatal(errors.Join(err, errors.New("delete it and fill the sink's views anew")))
	}
	e.plan, b.moves = plan{record: r}, b.moves[:0]
	for _, op := range e.ops {
		for value := range b.ops[op].Values {
			if err := e.decideValue(b, op, value); err != nil {
				return err
			}
		}
	}
	if !e.plan.changed {
		return nil
	}
	if e.plan.changes, err = e.changes(r, b.moves, b.cluster); err == nil && b.cluster {
		r.addPending(e.plan.changes)
	}
	return err
}

// decideValue notes in the record what a value comes to, and in the batch's moves how that changes a contribution.
func (e *entity) decideValue(b *batch, i, n int) error {
	op, value := &b.ops[i], &b.ops[i].Values[n]
	k, r := b.keepers[value.View], e.plan.record
	was := r.find(op.Cell, k.id)
	if was != nil && was.generation > k.generation {
		return errNewer
	}
	known := k.known(was)
	next, applies := b.Judge(i, n, known)
	is := viewRecord{id: k.id, generation: k.generation, state: next}
	if was != nil {
		is.claims = was.claims
	}
	if !applies {
		if next != known.State {
			e.plan.changed = true
			r.set(op.Cell, is)
		}
		return nil
	}
	forgotten := was != nil && was.generation != k.generation
	m := move{k: k, cell: op.Cell, rewrite: op.AsOf != 0 || op.Rewrite || forgotten}
	claims, err := k.claims(op.Cell, *value)
	if err == nil {
		err = e.blocks(k, claims)
	}
	b.Reject(i, n, err)
	if err != nil || value.Err != nil {
		claims = []claim{{kind: kindDead, key: k.dead}}
	}
	m.new = claims
	b.text = appendClaims(b.text[:0], claims)
	same := string(b.text) == is.claims
	if same && next == known.State && !m.rewrite {
		return nil // the same once more
	}
	if !same || m.rewrite {
		if m.rewrite || !otherValues(is.claims, b.text) { // else what is new stands where the old was
			if m.old, err = parseClaims(is.claims); err != nil {
				return replicator.Fatal(err)
			}
		}
		b.moves = append(b.moves, m)
	}
	if !same {
		is.claims = string(b.text)
	}
	e.plan.changed = true
	r.set(op.Cell, is)
	return nil
}

// block notes that a key holds another type.
func (e *entity) block(k viewKey, found string) {
	if e.blocked == nil {
		e.blocked = map[viewKey]string{}
	}
	e.blocked[k] = found
}

// blocks says why claims can't be held: one is to a key that holds another type.
func (e *entity) blocks(k *keeper, claims []claim) error {
	if len(e.blocked) == 0 {
		return nil
	}
	for _, c := range claims {
		if found, is := e.blocked[viewKey{k.id, c.kind, c.key}]; is {
			return wrongType(c.key, found)
		}
	}
	return nil
}
