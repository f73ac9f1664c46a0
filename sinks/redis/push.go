package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"
)

// In a cluster, an entity's record and the keys that it contributes to are in different slots, and no script reaches
// both. So a change takes several steps. Any process may repeat each of them:
//
//  1. The record is replaced, if it is unchanged. It lists the keys that may not show its contributions yet (pending).
//  2. Each pending key is set to what the record says. The record's revision is stored beside the key, so that a
//     delayed command does nothing once a later one has arrived.
//  3. The record is replaced again, without pending keys.
//
// If the process ends in between, any process that later reads the record for an op completes the pending keys.

//go:embed swap.lua
var swapSource string

//go:embed push.lua
var pushSource string

// gonePrefix begins a key that remembers, in a cluster, that an entity's contribution to a view's key was removed. Its
// value is the revision of the entity's record at that time.
const gonePrefix = prefix + "gone:"

// addPending adds changes to the record's list of changes that may not have reached their keys yet. It also raises the
// record's revision, at least to the time in microseconds. So it is above every earlier one even if the record was
// lost.
func (r *record) addPending(changes []change) {
	r.revision = max(r.revision+1, uint64(time.Now().UnixMicro()))
	for _, ch := range changes {
		p := pending{ch.viewKey, ch.goes, ch.args}
		i := slices.IndexFunc(r.pending, func(q pending) bool { return q.viewKey == ch.viewKey })
		if i < 0 {
			r.pending = append(r.pending, p)
		} else {
			r.pending[i] = p
		}
	}
}

// empty reports whether the entity contributes nothing to the key after the pending change.
func (p *pending) empty() bool {
	switch p.kind {
	case kindHash:
		return len(p.args) == 0 || p.args[0] == "0"
	case kindSet:
		return len(p.args) < 2 || p.args[1] != "1"
	}
	return len(p.args) == 0
}

func (s *Sink) writeInCluster(ctx context.Context, b *batch, entities []*entity) (again map[*entity]bool, err error) {
	again = map[*entity]bool{}
	var decided []*entity
	for _, e := range entities {
		if e.plan.changed {
			decided = append(decided, e)
		}
	}
	if err := s.swapRecords(ctx, b, decided, again); err != nil {
		return nil, err
	}
	own := func(p *pending) bool { return b.keeps(p.id) }
	if err := s.pushAll(ctx, b, entities, own, again); err != nil {
		return nil, err
	}
	done := func(pending) bool { return true }
	err = s.pushAll(ctx, b, entities, func(p *pending) bool { return !own(p) }, again)
	if errors.Is(err, noPermission) {
		// The key belongs to another target's view, so this target goes on. The change stays pending. The other target
		// fails when it makes the change.
		done, err = func(p pending) bool { return own(&p) }, nil
	}
	if err != nil {
		return nil, err
	}
	var finished []*entity
	for _, e := range entities {
		if r := e.plan.record; !again[e] && slices.ContainsFunc(r.pending, done) {
			r.pending = slices.DeleteFunc(r.pending, done)
			finished = append(finished, e)
		}
	}
	return again, s.swapRecords(ctx, b, finished, again)
}

func (b *batch) keeps(id viewID) bool {
	return slices.ContainsFunc(b.keepers, func(k *keeper) bool { return k.shows == id })
}

// again notes that an entity's record must be read again, and its changes be planned again.
func (e *entity) again(again map[*entity]bool) {
	e.known = false
	again[e] = true
}

// swapRecords writes the entities' new records. It adds an entity to `again` if its record has changed since the
// decision.
func (s *Sink) swapRecords(ctx context.Context, b *batch, entities []*entity, again map[*entity]bool) error {
	if len(entities) == 0 {
		return nil
	}
	store(&b.arena, entities)
	calls := make([]call, len(entities))
	for i, e := range entities {
		calls[i] = newCall([]string{e.key}, e.plan.record.nonce, e.next)
	}
	cmds, err := s.run(ctx, s.swapRecord, calls)
	if err != nil {
		return classify(err, "writing records")
	}
	for i, cmd := range cmds {
		n, err := cmd.Int()
		if err != nil {
			return classify(err, "writing records")
		}
		if e := entities[i]; n == 0 {
			e.again(again)
		} else {
			e.plan.record.nonce = e.next[:nonceSize]
		}
	}
	return nil
}

// pushAll makes the pending changes for which `some` returns true. Those that add something come first. So a reader may
// briefly find an entity twice, but never misses it.
func (s *Sink) pushAll(
	ctx context.Context, b *batch, entities []*entity, some func(*pending) bool, again map[*entity]bool,
) error {
	adds := func(p *pending) bool { return some(p) && !p.empty() }
	if err := s.pushSome(ctx, b, entities, adds, again); err != nil {
		return err
	}
	return s.pushSome(ctx, b, entities, func(p *pending) bool { return some(p) && p.empty() }, again)
}

func (s *Sink) pushSome(
	ctx context.Context, b *batch, entities []*entity, some func(*pending) bool, again map[*entity]bool,
) error {
	type push struct {
		entity *entity
		key    viewKey
	}
	var calls []call
	var pushes []push
	for _, e := range entities {
		if again[e] {
			continue
		}
		r := e.plan.record
		for i := range r.pending {
			p := &r.pending[i]
			if !some(p) {
				continue
			}
			calls, pushes = append(calls, e.push(p, r.revision)), append(pushes, push{e, p.viewKey})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	cmds, err := s.run(ctx, s.push, calls)
	if err != nil {
		return classify(err, "applying")
	}
	var wrong []wrongKey
	for i, cmd := range cmds {
		found, err := cmd.Text()
		if err != nil {
			return classify(err, "applying")
		}
		if found != "" {
			pushes[i].entity.again(again)
			wrong = append(wrong, wrongKey{pushes[i].entity, pushes[i].key, found})
		}
	}
	return s.settle(ctx, wrong)
}

// push returns the call of the script that writes the entity's contribution to a key.
func (e *entity) push(p *pending, revision uint64) call {
	slot := sameSlot(p.key)
	who := string(p.id) + e.key
	keys := []string{p.key, postPrefix + slot, gonePrefix + slot + ":" + who}
	if other := beside(p.kind, p.key); other != "" {
		keys = append(keys, other)
	}
	strict, empty := 1, 0
	if p.empty() {
		strict, empty = 0, 1
	}
	if _, is := e.blocked[p.viewKey]; is {
		strict = 0
	}
	at := fmt.Sprintf("%0*d", revisionDigits, revision)
	c := newCall(keys, who, at, string(rune(p.kind)), strict, empty, p.goes.text())
	for _, a := range p.args {
		c = append(c, a)
	}
	return c
}
