package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"replicator"
)

//go:embed lib.lua
var library string

//go:embed apply.lua
var applySource string

// Target keeps views of one source. It is safe for concurrent use.
type Target struct {
	sink    *Sink
	source  string
	views   []*replicator.View
	keepers []*keeper
	marks   marks
}

var _ replicator.Target = (*Target)(nil)

// Views implements replicator.Target.
func (t *Target) Views() []*replicator.View { return t.views }

// Close implements replicator.Target. The sink's connections are its own.
func (t *Target) Close() error { return nil }

// maxTries is how often an entity is decided anew because somebody else changed its record meanwhile.
const maxTries = 50

// Apply implements replicator.Target: it reads the records of the batch's entities, decides in Go, and writes what it decided
// where the records are still the ones that were read; where they aren't, it does so again.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	var applied replicator.Applied
	todo := t.entities(ops)
	for try := 0; len(todo) > 0; try++ {
		if try == maxTries {
			return applied, fmt.Errorf("%d entities are changed by others all the time", len(todo))
		}
		if err := t.read(ctx, todo); err != nil {
			return applied, err
		}
		var write []*entity
		for _, e := range todo {
			if err := e.decide(&batch{t.keepers, ops, t.sink.cluster}); err != nil {
				return applied, fmt.Errorf("entity %s: %w", e.text, err)
			}
			if !e.plan.idle() || len(e.plan.before.pending) > 0 {
				write = append(write, e)
			}
		}
		again, err := t.sink.write(ctx, write)
		if err != nil {
			return applied, err
		}
		for _, e := range todo {
			if !again[e] {
				applied.Stale = append(applied.Stale, e.plan.stale...)
				applied.Rejected = append(applied.Rejected, e.plan.rejected...)
			}
		}
		todo = todo[:0]
		for e := range again {
			todo = append(todo, e)
		}
	}
	return applied, nil
}

// entities groups ops by entity.
func (t *Target) entities(ops []replicator.Op) []*entity {
	list := make([]*entity, 0, len(ops))
	known := make(map[replicator.Key]*entity, len(ops))
	byText := map[string]*entity{}
	for i := range ops {
		key := ops[i].Cell.Key
		e := known[key]
		if e == nil {
			text := key.String() // keys of different kinds may look alike, and are then one entity
			if e = byText[text]; e == nil {
				e = &entity{key: recordKey(t.source, text), text: text}
				byText[text] = e
				list = append(list, e)
			}
			known[key] = e
		}
		e.ops = append(e.ops, i)
	}
	return list
}

// read reads the entities' records.
func (t *Target) read(ctx context.Context, entities []*entity) error {
	keys := make([]string, len(entities))
	for i, e := range entities {
		keys[i] = e.key
	}
	stored, err := t.sink.get(ctx, keys)
	if err != nil {
		return classify(err, "reading records")
	}
	for i, e := range entities {
		e.stored = stored[i]
	}
	return nil
}

// The most that one call of a script does, so that other clients never wait for long: the server does one thing at a time.
const (
	callEntities = 128
	callArgs     = 4000
	callBytes    = 1 << 20
)

// call is one call of the script.
type call struct {
	entities []*entity
	keys     []string
	args     []any
	bytes    int
}

// write writes what was decided and returns the entities that must be decided again.
func (s *Sink) write(ctx context.Context, entities []*entity) (again map[*entity]bool, err error) {
	switch {
	case len(entities) == 0:
		return nil, nil
	case s.cluster:
		return s.writeApart(ctx, entities)
	}
	nonces := make([]byte, nonceSize*len(entities))
	rand.Read(nonces)
	var calls []*call
	var c *call
	for i, e := range entities {
		if c == nil || len(c.entities) == callEntities || len(c.args) >= callArgs || c.bytes >= callBytes {
			c = &call{keys: make([]string, 0, 3*callEntities), args: make([]any, 0, callArgs)}
			calls = append(calls, c)
		}
		c.add(e, nonces[i*nonceSize:(i+1)*nonceSize])
	}
	cmds, err := s.run(ctx, s.apply, calls)
	if err != nil {
		return nil, classify(err, "applying")
	}
	again = map[*entity]bool{}
	for i, c := range calls {
		if err := c.result(cmds[i], again); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// add adds an entity's record and changes.
func (c *call) add(e *entity, nonce []byte) {
	stored := e.plan.after.append(append(make([]byte, 0, nonceSize+e.plan.after.size()), nonce...))
	c.entities = append(c.entities, e)
	c.keys = append(c.keys, e.key)
	c.args = append(c.args, e.plan.before.nonce, stored, len(e.plan.changes))
	c.bytes += len(stored)
	for _, ch := range e.plan.changes {
		strict := 0
		if ch.strict {
			strict = 1
		}
		c.keys = append(c.keys, ch.key)
		if other := beside(ch.kind, ch.key); other != "" {
			c.keys = append(c.keys, other)
		}
		c.args = append(c.args, string(rune(ch.kind)), strict, len(ch.args))
		for _, a := range ch.args {
			c.args = append(c.args, a)
			c.bytes += len(a)
		}
	}
}

// result notes which entities were not applied.
func (c *call) result(cmd *redis.Cmd, again map[*entity]bool) error {
	undone, err := cmd.Slice()
	if err != nil {
		return classify(err, "applying")
	}
	for ; len(undone) >= 3; undone = undone[3:] {
		n, ok := undone[0].(int64)
		at, ok2 := undone[1].(int64)
		found, ok3 := undone[2].(string)
		if !ok || !ok2 || !ok3 || n < 0 || int(n) >= len(c.entities) || int(at) > len(c.entities[n].plan.changes) {
			return errors.New("the script's answer is not understood")
		}
		e := c.entities[n]
		again[e] = true
		if at > 0 {
			if e.blocked == nil {
				e.blocked = map[target]string{}
			}
			e.blocked[e.plan.changes[at-1].target] = found
		}
	}
	return nil
}

// wrongType is why a claim can't be held.
func wrongType(key, found string) error {
	return fmt.Errorf("the key %s holds a %s that something else put there: delete or rename it, then retry", strconv.Quote(key), found)
}

// Versions implements replicator.Target.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]int64, error) {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = recordKey(t.source, c.Key.String())
	}
	stored, err := t.sink.get(ctx, keys)
	if err != nil {
		return nil, classify(err, "reading records")
	}
	versions := make([]int64, len(cells))
	for i, c := range cells {
		r, err := parseRecord(stored[i])
		if err != nil {
			return nil, replicator.Fatal(fmt.Errorf("entity %s: %w", c.Key, err))
		}
		versions[i] = t.version(r, c)
	}
	return versions, nil
}

// version is the lowest version over the views that the cell feeds.
func (t *Target) version(r *record, c replicator.Cell) int64 {
	lowest, first := replicator.NoVersion, true
	for _, k := range t.keepers {
		if !k.view.Feeds(c) {
			continue
		}
		v := r.find(c, k.id)
		if v == nil || v.generation != k.generation {
			return replicator.NoVersion
		}
		if first || v.state.Version < lowest {
			lowest, first = v.state.Version, false
		}
	}
	return lowest
}
