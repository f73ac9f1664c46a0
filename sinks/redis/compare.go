package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/sinks/judge"
)

// Compare implements replicator.Target. It reads the keys between two readings of the entities' records. An entity
// whose record changed meanwhile is compared again.
func (t *Target) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	var found []replicator.Difference
	todo := t.newBatch(ops).list // the batch is never released, because the findings may refer to its memory
	for try := 0; len(todo) > 0; try++ {
		if try == maxTries {
			return nil, fmt.Errorf("%d entities changed during each of %d attempts: try again when there are fewer writes",
				len(todo), maxTries)
		}
		if err := t.read(ctx, todo); err != nil {
			return nil, err
		}
		before := make([]string, len(todo))
		compared := make([][]*comparison, len(todo))
		for i, e := range todo {
			var err error
			if compared[i], err = t.comparisons(ctx, e, ops); err != nil {
				return nil, fmt.Errorf("entity %s: %w", e.text, err)
			}
			before[i] = e.stored
		}
		if err := t.sink.readSpots(ctx, slices.Concat(compared...)); err != nil {
			return nil, classify(err, "reading what the views hold")
		}
		if err := t.read(ctx, todo); err != nil {
			return nil, err
		}
		var again []*entity
		for i, e := range todo {
			if e.stored != before[i] {
				again = append(again, e)
				continue
			}
			for _, c := range compared[i] {
				found = append(found, c.differences()...)
			}
		}
		todo = again
	}
	return found, nil
}

// comparison compares what one view shows of one entity with what it should show.
type comparison struct {
	k       *keeper
	firstOp int
	states  []replicator.State
	text    string                  // the entity's key
	want    []claim                 // what the entity should contribute to the view
	known   []claim                 // what the entity contributes according to its record in Redis
	spots   []spot                  // the keys, or members of keys, that `want` and `known` have
	dead    []replicator.Difference // the entity's cells that are dead letters

	applied      bool // according to the entity's record, the sink has applied what each cell should contribute
	incomparable bool // the view shows another source's row, and the entity's record lacks the row's values
	unrecorded   bool // the entity's record has no state for this view: the sink did not write what the view shows
}

// spot is a key, or a member of a key, at which a view shows or should show a contribution of the entity.
type spot struct {
	claim  claim
	want   *claim // what the key or member should show of the entity; nil: nothing
	known  bool   // according to the entity's record, the key or member shows a contribution of the entity
	cmd    redis.Cmder
	posted *redis.BoolCmd // in a cluster: whether the hash at postKey has the entity's contribution; nil: not queried
	held   bool           // the key or member really shows a contribution of the entity
	gone   bool           // the key or member shows nothing, neither of this entity nor of another one
	right  bool           // the key or member shows exactly want
}

func (t *Target) comparisons(ctx context.Context, e *entity, ops []replicator.Op) ([]*comparison, error) {
	r, err := t.sink.parse(ctx, new(arena), e.stored, e.text)
	if errors.Is(err, errDamaged) || errors.Is(err, errNoLayout) { // a record that can't be read counts as an empty one
		r, err = new(record), nil
	}
	if err != nil {
		return nil, replicator.Fatal(err)
	}
	var list []*comparison
	wanted := map[*comparison][]cellClaims{}
	for _, i := range e.ops {
		for _, value := range ops[i].Values {
			k := t.keepers[value.View]
			at := slices.IndexFunc(list, func(c *comparison) bool { return c.k == k })
			if at < 0 {
				at = len(list)
				c := &comparison{k: k, firstOp: i, text: e.text, applied: true, unrecorded: true}
				list = append(list, c)
				if wanted[c], err = c.others(r); err != nil {
					return nil, err
				}
			}
			c, v := list[at], r.find(ops[i].Cell, k.id)
			c.unrecorded = c.unrecorded && v == nil
			if v != nil && v.contributes() {
				claims, err := parseClaims(v.claims)
				if err != nil {
					return nil, replicator.Fatal(err)
				}
				c.known = append(c.known, claims...)
			}
			known := k.known(v)
			c.states = append(c.states, known.State)
			claims, err := k.claims(new(arena), ops[i].Cell, &value)
			fellows, _ := e.fellows(r, ops[i].Cell, k)
			err = cmp.Or(value.Err, err, judge.Claimed(ops[i], fellows))
			if err != nil || len(claims) > 0 && known.Refused(ops[i]) {
				c.dead = append(c.dead, replicator.Difference{
					Op: i, View: k.index, Kind: replicator.Dead, States: []replicator.State{known.State}, Err: err,
				})
				c.applied = c.applied && !known.Shown
				continue
			}
			c.applied = c.applied && k.applied(v, claims)
			c.want = append(c.want, claims...)
			wanted[c] = append(wanted[c], cellClaims{ops[i].Cell, claims})
		}
	}
	for _, c := range list {
		sortCells(c.k.view, wanted[c])
		c.merge(wanted[c])
		c.addSpots()
	}
	return list, nil
}

// others adds what other sources, such as shards, contribute to the entity according to its record `r`. It adds that to
// both `c.want` and `c.known`, so it never counts as a difference: each source's own `verify` compares it.
func (c *comparison) others(r *record) (cells []cellClaims, err error) {
	for i := range r.cells {
		for _, id := range c.k.ids[1:] {
			v := r.cells[i].view(id)
			if v == nil || !v.contributes() {
				continue
			}
			claims, err := parseClaims(v.claims)
			if err != nil {
				return nil, replicator.Fatal(err)
			}
			c.unrecorded = false
			lacksValues := func(x claim) bool { return x.row != nil && !x.row.whole }
			c.incomparable = c.incomparable || slices.ContainsFunc(claims, lacksValues)
			c.want, c.known = append(c.want, claims...), append(c.known, claims...)
			cells = append(cells, cellClaims{r.cells[i].cell, claims})
		}
	}
	return cells, nil
}

// merge replaces the wanted rows, one of each cell, by one merged row for each key.
func (c *comparison) merge(cells []cellClaims) {
	if c.k.kind != kindHash && c.k.kind != kindJSON {
		return
	}
	var rows []claim
	for _, x := range c.want {
		if slices.ContainsFunc(rows, func(r claim) bool { return r.key == x.key }) {
			continue
		}
		merged, _, _ := merge(new(arena), viewKey{c.k.id, x.kind, x.key}, c.k.names, cells)
		rows = append(rows, claim{kind: x.kind, key: x.key, row: &merged})
	}
	c.want = rows
}

// addSpots lists the spots: keys, or members of keys, at which the view should show a contribution of the entity, or
// shows one according to the entity's record.
func (c *comparison) addSpots() {
	for _, x := range slices.Concat(c.want, c.known) {
		same := func(o claim) bool { return o.kind == x.kind && o.key == x.key && o.member == x.member }
		if x.kind != c.k.kind || slices.ContainsFunc(c.spots, func(s spot) bool { return same(s.claim) }) {
			continue
		}
		s := spot{claim: x, known: slices.ContainsFunc(c.known, same)}
		if i := slices.IndexFunc(c.want, same); i >= 0 {
			s.want = &c.want[i]
		}
		c.spots = append(c.spots, s)
	}
}

// readSpots reads each spot (a key, or a member of a key) from Redis, and sets its fields held, gone and right.
func (s *Sink) readSpots(ctx context.Context, list []*comparison) error {
	failed := func(err error) bool { // a key of another type counts as missing
		return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE")
	}
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, c := range list {
			for i := range c.spots {
				c.spots[i].cmd = c.k.ask(ctx, p, c.spots[i].claim, c.text)
				if s.cluster {
					c.queryPost(ctx, p, &c.spots[i])
				}
			}
		}
		return nil
	})
	if failed(err) {
		return err
	}
	for _, c := range list {
		for i := range c.spots {
			if err := c.spots[i].cmd.Err(); failed(err) {
				return err
			}
			c.judgeSpot(&c.spots[i])
			if c.spots[i].lacksPost() {
				c.spots[i].right = false
			}
		}
	}
	return nil
}

// ask queues the command that reads what the view shows at the key of a claim, or at the key's member.
func (k *keeper) ask(ctx context.Context, p redis.Pipeliner, c claim, text string) redis.Cmder {
	member := cmp.Or(c.member, text)
	switch k.kind {
	case kindHash:
		return p.HMGet(ctx, c.key, k.names...)
	case kindSet, kindMembers:
		return p.SIsMember(ctx, c.key, member)
	case kindUnique:
		return p.Eval(ctx, holderAndClaims, []string{c.key, beside(k.kind, c.key)})
	case kindCounter:
		return p.Eval(ctx, shownAndSum, []string{c.key, beside(k.kind, c.key)})
	case kindRanking:
		return p.Eval(ctx, scoreAndSum, []string{c.key, beside(k.kind, c.key)}, member)
	}
	return p.Get(ctx, c.key)
}

// These scripts read a user's key, and the sink's own key with its sum or counts, at one moment, because other entities
// may change both at any time. A key of another type counts as missing.
const (
	asking = `local function ask(...)
	local answer = redis.pcall(...)
	if type(answer) == 'table' and answer.err then return false end
	return answer
end
`
	holderAndClaims = asking + `return {ask('GET', KEYS[1]), ask('HKEYS', KEYS[2])}`
	shownAndSum     = asking + `return {ask('GET', KEYS[1]), ask('GET', KEYS[2])}`
	scoreAndSum     = asking + `return {ask('ZSCORE', KEYS[1], ARGV[1]), ask('HGET', KEYS[2], ARGV[1])}`
)

// judgeSpot sets s.held and s.right from Redis's reply. It also sets s.gone, except for sums and unique values.
func (c *comparison) judgeSpot(s *spot) {
	wanted := s.want != nil
	switch cmd := s.cmd.(type) {
	case *redis.SliceCmd:
		s.held, s.right = c.k.judgeHash(cmd.Val(), s.want)
		s.gone = cmd.Err() == nil && !s.held
	case *redis.StringCmd:
		s.held, s.gone = cmd.Err() == nil, errors.Is(cmd.Err(), redis.Nil)
		s.right = wanted && s.held && cmd.Val() == s.want.row.json()
	case *redis.BoolCmd:
		s.held, s.gone = cmd.Val() && (wanted || s.known), cmd.Err() == nil && !cmd.Val()
		s.right = wanted && s.held
	case *redis.Cmd:
		both, _ := cmd.Slice() // readSpots has already checked the command's error
		if c.k.kind != kindUnique {
			// A sum of a counter or a ranking is right here if the view's key shows what the sink's own key has.
			// comparison.differences checks the entity's amounts.
			s.held = s.known
			s.right = wanted && s.known && sameSum(c.k.kind, both[0], both[1])
			return
		}
		holder, _ := both[0].(string)
		claims, _ := both[1].([]any)
		own := c.text
		if wanted {
			own = cmp.Or(s.want.member, own)
		}
		s.held = holder == own || s.known && !wanted
		s.right = wanted && slices.Contains(claims, any(own)) && slices.Contains(claims, any(holder))
	}
}

// sameSum reports whether the sum that a view's key shows is the one that the sink stores in its own key.
func sameSum(kind byte, shown, sum any) bool {
	if kind == kindCounter || shown == nil || sum == nil {
		return shown == sum
	}
	_, exact, _ := strings.Cut(fmt.Sprint(sum), " ") // the number of contributions precedes a ranking's sum
	score, err1 := strconv.ParseFloat(fmt.Sprint(shown), 64)
	remembered, err2 := strconv.ParseFloat(exact, 64)
	return err1 == nil && (err2 == nil || errors.Is(err2, strconv.ErrRange)) && score == remembered
}

// judgeHash reports whether a hash has any of the view's fields (held), and whether it has exactly the fields of want
// (right). values is empty if the key has another type.
func (k *keeper) judgeHash(values []any, want *claim) (held, right bool) {
	right = want != nil && (len(values) > 0 || len(want.row.fields) == 0)
	for i, v := range values {
		text, has := v.(string)
		held = held || has
		if want == nil {
			continue
		}
		at := want.row.index(k.names[i])
		if has != (at >= 0) || has && want.row.fields[at].value != text {
			right = false
		}
	}
	return held, right
}

// entry returns, for messages, what the key or member shows. It is not used for sums, which include other entities.
func (k *keeper) entry(s spot) replicator.Entry {
	e := replicator.Entry{Key: s.claim.key, Member: s.claim.member, Fields: make([]any, len(k.names))}
	switch cmd := s.cmd.(type) {
	case *redis.SliceCmd:
		copy(e.Fields, cmd.Val())
	case *redis.StringCmd:
		var values map[string]json.RawMessage
		if json.Unmarshal([]byte(cmd.Val()), &values) != nil { // not JSON: another program wrote this value
			e.Member = cmd.Val()
			break
		}
		for i, name := range k.names {
			if v := values[name]; v != nil {
				e.Fields[i] = replicator.RawJSON(v)
			}
		}
	case *redis.Cmd:
		both, _ := cmd.Slice()
		e.Member, _ = both[0].(string)
	}
	return e
}

func (k *keeper) sums() bool { return k.kind == kindCounter || k.kind == kindRanking }

// held returns what the view shows of the entity. For sums, it returns the amounts that the entity's record claims.
func (c *comparison) held() (held []replicator.Entry) {
	if c.k.sums() {
		for _, x := range c.known {
			e := replicator.Entry{Key: x.key, Member: x.member}
			if len(c.k.names) > 0 {
				e.Fields = append(make([]any, len(c.k.names)-1), replicator.Number(x.counted()))
			}
			held = append(held, e)
		}
		return held
	}
	for _, s := range c.spots {
		if s.held {
			held = append(held, c.k.entry(s))
		}
	}
	return held
}

func (c *comparison) differences() []replicator.Difference {
	if c.incomparable {
		return c.dead
	}
	want, held, right := false, false, !c.k.sums() || sameAmounts(c.want, c.known)
	for _, s := range c.spots {
		want, held = want || s.want != nil, held || s.held
		right = right && (s.want != nil && (s.right || c.expired(&s)) || s.want == nil && !s.held)
	}
	switch {
	case want && c.unrecorded:
		held = false
	case right: // a missing key is right if the hash should have no fields: Redis has no empty hashes
		return c.dead
	}
	return []replicator.Difference{{
		Op: c.firstOp, View: c.k.index, Kind: judge.Difference(want, held, false), States: c.states, Held: c.held(),
	}}
}

func sameAmounts(a, b []claim) bool {
	count := map[claim]int{}
	for _, c := range a {
		count[c]++
	}
	for _, c := range b {
		if count[c]--; count[c] < 0 {
			return false
		}
	}
	return len(a) == len(b)
}
