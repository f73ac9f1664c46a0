package redis

import (
	"cmp"
	"errors"
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// entity is what a batch does to one entity (the rows of one key).
type entity struct {
	key  string // the key of the entity's record
	text string // the entity's key, as templates show it
	ops  []int  // indexes of the entity's ops in the batch

	known   bool               // `stored` is set: it was read, a script returned it, or it is a guess
	assumed bool               // `stored` is a guess: the record that was written last, or "" (see recall)
	stored  string             // the record as stored in Redis; "" if there is none
	blocked map[viewKey]string // by key that can't show the entity's contribution: the script's answer (see refused)
	freed   []viewKey          // keys from which Sink.settle removed values; if any, unchanged values are written, too
	plan    plan
	layout  string // the new record's layout (the part that many records share), if the registry lacks it
	id      string // the id of the new record's layout in the registry; "": the record is stored in full
	values  string // what the new record has besides its layout
	next    string // the new record, in its stored form
}

// viewKey is a Redis key that a view writes, the view's id, and the kind of what the view puts there.
type viewKey struct {
	id   viewID
	kind byte
	key  string
}

type plan struct {
	record  *record // the new record
	changed bool    // the new record differs from the stored one
	changes []change
	meet    bool // several changes have the same key
}

type change struct {
	viewKey
	strict        bool // the change adds something, so another type at the key is an error
	shownByOthers bool // another view still shows what the change would remove: see dropShownByOthers
	goes          goes
	fields        int // of a hash: the number of fields to set
	args          []string
}

// move replaces a cell's contribution to a view: old by new.
type move struct {
	k        *keeper
	id       viewID // in the entity's record: the view as fed by the cell's source
	cell     replicator.Cell
	old, new []claim
	rewrite  bool // write even unchanged values: the keys may have been changed by hand
	former   bool // the old claims come from an earlier definition, or a former view or source
}

// errNewer means that another process has begun a later generation of the view: it has forgotten or redefined it.
var errNewer = errors.New("since this process opened the view, another one has forgotten it (`checkpoint forget`) or " +
	"opened it with another definition. If that process still runs, stop one of the two")

// newerError says which view another process has forgotten or redefined. `generation` is the later generation (number
// of a definition) that was found in an entity's record.
type newerError struct {
	k          *keeper
	generation uint64
}

func (newerError) Error() string { return errNewer.Error() }
func (newerError) Unwrap() error { return errNewer }

// batch is all that is needed to decide what one call of Target.Apply writes.
type batch struct {
	*judge.Batch
	keepers []*keeper
	ops     []replicator.Op
	cluster bool // the sink is a cluster: no script reaches both an entity's record and its keys
	reclaim bool

	registry     *registry // for horizons, and for the layouts of the new records
	layouts      *layouts  // for the layouts of the stored records
	behind       bool      // the server has a newer registry than `registry`
	layoutBuffer []byte

	arena
	entities []entity
	list     []*entity
	byKey    map[string]*entity
	places   []int
	moves    []move // the new contributions of cells to views, for the entity that is being decided
	changer  changer
	writing  writing
}

func (t *Target) newBatch(ops []replicator.Op) *batch {
	b, ok := t.batches.Get().(*batch)
	if !ok {
		b = &batch{Batch: judge.NewBatch(nil), byKey: map[string]*entity{}, writing: writing{shapes: map[string]int{}}}
	}
	b.Batch.Begin(ops)
	b.keepers, b.ops, b.cluster = t.keepers, ops, t.sink.cluster
	b.reclaim = t.reclaims
	b.registry, b.layouts, b.behind = t.registry.Load(), &t.sink.layouts, false
	b.gather()
	return b
}

// release gives back the batch's memory. Nothing of its entities, not even a string, may be used after that.
func (t *Target) release(b *batch) {
	clear(b.byKey)
	clear(b.entities)
	clear(b.list)
	clear(b.moves[:cap(b.moves)])
	b.arena.reset()
	b.Batch.Begin(nil)
	b.ops = nil
	t.batches.Put(b)
}

// gather groups the ops by entity. Keys with the same text are one entity, even if they differ in type, as a number and
// a string may.
func (b *batch) gather() {
	n := len(b.ops)
	b.entities, b.list = slices.Grow(b.entities[:0], n), slices.Grow(b.list[:0], n)
	b.places = slices.Grow(b.places[:0], n)[:n]
	start := recordKey("")
	for i := range b.ops {
		text := b.ops[i].Cell.Key.AppendString(append(b.bytes.take(len(start)+48), start...))
		if e := b.byKey[textOf(text)]; e != nil {
			e.ops = append(e.ops, i)
			continue
		}
		key := b.keep(text)
		b.places[i] = i
		b.entities = append(b.entities, entity{key: key, text: key[len(start):], ops: b.places[i : i+1 : i+1]})
		e := &b.entities[len(b.entities)-1]
		b.byKey[key] = e
		b.list = append(b.list, e)
	}
}

// decide judges the entity's ops by its record, and plans what to write.
func (e *entity) decide(b *batch) error {
	r, err := b.parseRecord(e.stored, e.text, b.layouts)
	if err != nil {
		return replicator.Fatal(err)
	}
	e.plan, b.moves = plan{record: r}, b.moves[:0]
	for _, op := range e.ops {
		if b.Unknown(op, func(value int) judge.Known { return b.knownIn(r, op, value) }) {
			continue
		}
		for value := range b.ops[op].Values {
			if err := e.decideValue(b, op, value); err != nil {
				return err
			}
		}
	}
	if !e.plan.changed {
		return nil
	}
	if e.plan.changes, e.plan.meet, err = e.changes(b, r); err == nil && b.cluster {
		r.addPending(e.plan.changes)
	}
	return err
}

// knownIn returns what the record r says about an op's cell in one view. `op` is the op's index in the batch. `value`
// is the index, among the op's values, of the value for that view.
func (b *batch) knownIn(r *record, op, value int) judge.Known {
	k := b.keepers[b.ops[op].Values[value].View]
	known := k.known(r.find(b.ops[op].Cell, k.id))
	known.Horizon = b.registry.horizon(k.id, k.generation)
	return known
}

// decideValue judges one value, which is what an op contributes to one view. It stores the cell's new state in the
// entity's new record. If Redis keys must change, it adds the cell's old and new contribution to b.moves.
func (e *entity) decideValue(b *batch, i, n int) error {
	op, value := &b.ops[i], &b.ops[i].Values[n]
	k, r := b.keepers[value.View], e.plan.record
	was := r.find(op.Cell, k.id)
	if was != nil && was.generation > k.generation && was.generation > k.disowned.Load() {
		return newerError{k, was.generation}
	}
	known := b.knownIn(r, i, n)
	next, applies := b.Judge(i, n, known)
	is := viewRecord{id: k.id, generation: k.generation, state: next}
	if was != nil {
		is.claims = was.claims
	}
	fellows, records := e.fellows(r, op.Cell, k)
	if !applies {
		b.Claim(i, n, next, fellows)
		if next != known.State {
			e.plan.changed = true
			b.set(r, op.Cell, is, len(op.Values))
		}
		return nil
	}
	forgotten := was != nil && was.generation != k.generation
	m := move{k: k, id: k.id, cell: op.Cell, former: forgotten || b.reclaim,
		rewrite: op.AsOf != 0 || op.Rewrite || forgotten || len(e.freed) > 0}
	claims, err := k.claims(&b.arena, op.Cell, value)
	if err == nil {
		err = e.blockedError(k, claims)
	}
	b.Reject(i, n, err)
	_, waits, heir := b.Claim(i, n, next, fellows)
	switch bad := cmp.Or(err, value.Err); {
	case waits:
		claims = waiting(claims, bad)
	case bad != nil:
		claims = []claim{{kind: kindDead}}
	}
	m.new = claims
	text := appendClaims(b.bytes.take(256), claims)
	same := string(text) == is.claims
	kept := b.keep(text)
	if same && next == known.State && !m.rewrite && heir < 0 {
		return nil
	}
	m.rewrite = m.rewrite || k.goes.after() // every change restarts the key's expiry
	if !same || m.rewrite {
		// m.old says what to remove. If only a row's values differ, nothing is: the new row overwrites the old one.
		if m.rewrite || !otherValues(is.claims, text) {
			if m.old, err = b.parseClaims(is.claims); err != nil {
				return replicator.Fatal(err)
			}
		}
		b.moves = append(b.moves, m)
	}
	if !same {
		is.claims = kept
	}
	e.plan.changed = true
	if heir >= 0 {
		if err := b.promote(k, op.Cell, records[heir], fellows[heir].Barren); err != nil {
			return err
		}
	}
	b.set(r, op.Cell, is, len(op.Values))
	return nil
}

// fellows returns what the record r says of the same cell at other sources, such as shards. records[i] is the part of r
// that has fellows[i].
func (e *entity) fellows(r *record, c replicator.Cell, k *keeper) (fellows []judge.Fellow, records []*viewRecord) {
	for i, source := range k.fellows {
		v := r.find(c, k.ids[i+1])
		if v == nil {
			continue
		}
		f := judge.Fellow{Source: source, Known: judge.Known{State: v.state, Shown: v.contributes(), Dead: v.dead()}}
		if text, held, waits := v.waits(); waits {
			claims, err := parseClaims(text)
			f.Waits, f.Barren = true, !held || err != nil || e.blockedError(k, claims) != nil
		}
		fellows, records = append(fellows, f), append(records, v)
	}
	return fellows, records
}

// promote makes the view show another source's row of the cell, which waited until this source's row was deleted. If
// barren is true, the view can't hold that row, and shows nothing.
func (b *batch) promote(k *keeper, c replicator.Cell, waited *viewRecord, barren bool) error {
	text, _, _ := waited.waits()
	m := move{k: k, id: waited.id, cell: c, rewrite: true}
	var err error
	switch m.old, err = b.parseClaims(waited.claims); {
	case err != nil:
	case barren:
		m.new = m.old[:1] // only kindDead: the cell stays a dead letter, and no longer waits
	default:
		m.new, err = b.parseClaims(text)
	}
	if err != nil {
		return replicator.Fatal(err)
	}
	for i := range m.new {
		if r := m.new[i].row; r != nil {
			r.kept = k.merges(c)
		}
	}
	waited.claims = string(appendClaims(nil, m.new))
	b.moves = append(b.moves, m)
	return nil
}

// block notes that a view's key can't show the entity's contribution, because it has another type, or a sum would be
// too large for a score. found is the script's answer (see refused).
func (e *entity) block(k viewKey, found string) {
	if e.blocked == nil {
		e.blocked = map[viewKey]string{}
	}
	e.blocked[k] = found
}

// blockedError returns an error if block was called for the key of one of the claims (a cell's contribution).
func (e *entity) blockedError(k *keeper, claims []claim) error {
	if len(e.blocked) == 0 {
		return nil
	}
	for _, c := range claims {
		if found, is := e.blocked[viewKey{k.shows, c.kind, c.key}]; is {
			return refused(c.key, found)
		}
	}
	return nil
}
