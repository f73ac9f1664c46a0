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

// Compare implements replicator.Target. What keys hold is read between two readings of the entities' records: an entity
// whose record changed meanwhile is looked at again.
func (t *Target) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	var found []replicator.Difference
	todo := t.entities(ops)
	for try := 0; len(todo) > 0; try++ {
		if try == maxTries {
			return nil, fmt.Errorf("%d entities are changed all the time", len(todo))
		}
		if err := t.read(ctx, todo); err != nil {
			return nil, err
		}
		looks := make([][]*look, len(todo))
		for i, e := range todo {
			var err error
			if looks[i], err = t.looks(e, ops); err != nil {
				return nil, fmt.Errorf("entity %s: %w", e.text, err)
			}
		}
		if err := t.sink.look(ctx, slices.Concat(looks...)); err != nil {
			return nil, classify(err, "reading what the views hold")
		}
		before := make([]string, len(todo))
		for i, e := range todo {
			before[i] = e.stored
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
			for _, l := range looks[i] {
				if kind := l.difference(); kind != "" {
					found = append(found, replicator.Difference{Op: l.op, View: l.k.place, Kind: kind, State: l.state, Held: l.held()})
				} else {
					found = append(found, l.dead...)
				}
			}
		}
		todo = again
	}
	return found, nil
}

// look is one view's entity under comparison.
type look struct {
	k     *keeper
	op    int // the first of the entity's
	state replicator.State
	text  string                  // the entity's key
	want  []claim                 // what its cells should contribute
	known []claim                 // what its record says that they do
	shown []shown                 // by key that is in want or known
	dead  []replicator.Difference // its cells of which the view can hold nothing
}

// shown is what a key shows of the entity.
type shown struct {
	kind     byte
	key      string
	member   string
	expected bool
	right    bool // it shows what is expected
	some     bool // it shows something of the entity
	cmds     []redis.Cmder
}

// looks says what has to be looked at for an entity: each view once.
func (t *Target) looks(e *entity, ops []replicator.Op) ([]*look, error) {
	r, err := parseRecord(e.stored)
	if err != nil {
		return nil, replicator.Fatal(err)
	}
	var looks []*look
	wanted := map[*look][]cellClaims{}
	for _, i := range e.ops {
		for _, value := range ops[i].Values {
			k := t.keepers[value.View]
			at := slices.IndexFunc(looks, func(l *look) bool { return l.k == k })
			if at < 0 {
				at = len(looks)
				looks = append(looks, &look{k: k, op: i, text: e.text, state: replicator.Unseen})
			}
			l, v := looks[at], r.find(ops[i].Cell, k.id)
			if v != nil && v.contributes() {
				claims, err := parseClaims(v.claims)
				if err != nil {
					return nil, replicator.Fatal(err)
				}
				l.known = append(l.known, claims...)
			}
			known := k.known(v)
			if l.op == i {
				l.state = known.State
			}
			claims, err := k.claims(ops[i].Cell, value)
			if err = cmp.Or(value.Err, err); err != nil || len(claims) > 0 && known.Refused(ops[i]) {
				l.dead = append(l.dead, replicator.Difference{
					Op: i, View: k.place, Kind: replicator.Dead, State: known.State, Err: err,
				})
				continue
			}
			l.want = append(l.want, claims...)
			wanted[l] = append(wanted[l], cellClaims{ops[i].Cell, claims})
		}
	}
	for _, l := range looks {
		sortCells(l.k.view, wanted[l])
		l.merge(wanted[l])
	}
	return looks, nil
}

// merge makes one row of those that several cells should give.
func (l *look) merge(cells []cellClaims) {
	if l.k.kind != kindHash && l.k.kind != kindJSON {
		return
	}
	var rows []claim
	for _, c := range l.want {
		if slices.ContainsFunc(rows, func(r claim) bool { return r.key == c.key }) {
			continue
		}
		merged, _, _ := merge(target{l.k.id, c.kind, c.key}, l.k.view.Fields, cells)
		rows = append(rows, claim{kind: c.kind, key: c.key, row: &merged})
	}
	l.want = rows
}

// look asks what the keys show.
func (s *Sink) look(ctx context.Context, looks []*look) error {
	type answer struct {
		at    *shown
		l     *look
		want  *claim
		cmds  []redis.Cmder
		known bool
	}
	var answers []answer
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, l := range looks {
			for _, c := range l.keys() {
				a := answer{l: l, want: l.find(l.want, c), known: l.find(l.known, c) != nil}
				a.at = &shown{kind: c.kind, key: c.key, member: c.member, expected: a.want != nil}
				a.cmds = l.k.ask(ctx, p, c, l.text)
				answers = append(answers, a)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	for _, a := range answers {
		for _, cmd := range a.cmds {
			if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
				return err
			}
		}
		a.at.some, a.at.right = a.l.k.judge(a.cmds, a.want, a.known, a.l.text)
		a.at.cmds = a.cmds
		a.l.shown = append(a.l.shown, *a.at)
	}
	return nil
}

// keys are the claims, wanted or known, one for each place in Redis.
func (l *look) keys() []claim {
	var once []claim
	for _, c := range slices.Concat(l.want, l.known) {
		if c.kind == l.k.kind && l.find(once, c) == nil {
			once = append(once, c)
		}
	}
	return once
}

func (l *look) find(claims []claim, c claim) *claim {
	i := slices.IndexFunc(claims, func(x claim) bool { return x.kind == c.kind && x.key == c.key && x.member == c.member })
	if i < 0 {
		return nil
	}
	return &claims[i]
}

// ask asks what a key shows.
func (k *keeper) ask(ctx context.Context, p redis.Pipeliner, c claim, text string) []redis.Cmder {
	member := c.member
	if member == "" {
		member = text
	}
	switch k.kind {
	case kindHash:
		names := make([]string, len(k.view.Fields))
		for i, f := range k.view.Fields {
			names[i] = f.Name
		}
		return []redis.Cmder{p.HMGet(ctx, c.key, names...)}
	case kindSet, kindMembers:
		return []redis.Cmder{p.SIsMember(ctx, c.key, member)}
	case kindUnique:
		return []redis.Cmder{p.Eval(ctx, holderAndClaims, []string{c.key, beside(k.kind, c.key)})}
	case kindCounter:
		return []redis.Cmder{p.Eval(ctx, shownAndSum, []string{c.key, beside(k.kind, c.key)})}
	case kindRanking:
		return []redis.Cmder{p.Eval(ctx, scoreAndSum, []string{c.key, beside(k.kind, c.key)}, member)}
	}
	return []redis.Cmder{p.Get(ctx, c.key)}
}

// What is shown and what is remembered beside it change together, for other entities' sake, too: they are read at one
// moment. A key of another type is as good as none.
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

// judge says whether the answers show something of the entity, and whether that is what is wanted of it (nil: nothing).
func (k *keeper) judge(cmds []redis.Cmder, want *claim, known bool, text string) (some, right bool) {
	switch k.kind {
	case kindHash:
		return judgeHash(cmds[0].(*redis.SliceCmd).Val(), k, want)
	case kindJSON:
		cmd := cmds[0].(*redis.StringCmd)
		some = cmd.Err() == nil
		return some, want != nil && some && cmd.Val() == want.row.json()
	case kindSet, kindMembers:
		some = cmds[0].(*redis.BoolCmd).Val() && (want != nil || known)
		return some, some && want != nil
	case kindUnique:
		both, _ := cmds[0].(*redis.Cmd).Slice() // look has seen its error
		holder, _ := both[0].(string)
		claims, _ := both[1].([]any)
		own := text
		if want != nil && want.member != "" {
			own = want.member
		}
		return holder == own || known && want == nil, want != nil && slices.Contains(claims, any(own)) && slices.Contains(claims, any(holder))
	}
	// A counter or a ranking shows a sum: it is right if it shows what is remembered, and the record what is wanted.
	both, _ := cmds[0].(*redis.Cmd).Slice()
	return known, want != nil && known && sameSum(k.kind, both[0], both[1])
}

// sameSum reports whether a sum is shown as it is remembered.
func sameSum(kind byte, shown, sum any) bool {
	if kind == kindCounter || shown == nil || sum == nil {
		return shown == sum
	}
	_, exact, _ := strings.Cut(fmt.Sprint(sum), " ") // behind the number of claims
	score, err1 := strconv.ParseFloat(fmt.Sprint(shown), 64)
	remembered, err2 := strconv.ParseFloat(exact, 64)
	return err1 == nil && err2 == nil && score == remembered
}

func judgeHash(values []any, k *keeper, want *claim) (some, right bool) {
	right = want != nil
	for i, v := range values {
		text, has := v.(string)
		some = some || has
		if want == nil {
			continue
		}
		at := slices.IndexFunc(want.row.fields, func(f field) bool { return f.name == k.view.Fields[i].Name })
		if has != (at >= 0) || has && want.row.fields[at].value != text {
			right = false
		}
	}
	if len(values) == 0 && want != nil && len(want.row.fields) > 0 { // another type
		right = false
	}
	return some, right
}

// entry is what a key shows, for people; not of a sum, which is made by others, too.
func (k *keeper) entry(s shown) replicator.Entry {
	e := replicator.Entry{Key: s.key, Member: s.member, Fields: make([]any, len(k.view.Fields))}
	switch k.kind {
	case kindHash:
		copy(e.Fields, s.cmds[0].(*redis.SliceCmd).Val())
	case kindJSON:
		var values map[string]json.RawMessage
		text := s.cmds[0].(*redis.StringCmd).Val()
		if json.Unmarshal([]byte(text), &values) != nil { // somebody else wrote it
			e.Member = text
			break
		}
		for i, f := range k.view.Fields {
			if v := values[f.Name]; v != nil {
				e.Fields[i] = replicator.RawJSON(v)
			}
		}
	case kindUnique:
		both, _ := s.cmds[0].(*redis.Cmd).Slice()
		e.Member, _ = both[0].(string)
	}
	return e
}

// held is what the view shows of the entity; of sums, what was added up for it.
func (l *look) held() (held []replicator.Entry) {
	if l.k.kind == kindCounter || l.k.kind == kindRanking {
		for _, c := range l.known {
			e := replicator.Entry{Key: c.key, Member: c.member}
			if len(l.k.view.Fields) > 0 {
				e.Fields = append(make([]any, len(l.k.view.Fields)-1), replicator.Number(c.counted()))
			}
			held = append(held, e)
		}
		return held
	}
	for _, s := range l.shown {
		if s.some {
			held = append(held, l.k.entry(s))
		}
	}
	return held
}

// difference sums up what the keys show; "" if it is as it should be.
func (l *look) difference() replicator.DifferenceKind {
	want, held, wrong := false, false, false
	for _, s := range l.shown {
		want, held = want || s.expected, held || s.some
		wrong = wrong || s.expected && !s.right || !s.expected && s.some
	}
	if !wrong && (l.k.kind == kindCounter || l.k.kind == kindRanking) {
		wrong = !sameAmounts(l.want, l.known)
	}
	if !wrong { // a hash without fields should be there, and is right where it isn't
		return ""
	}
	return judge.Difference(want, held, false)
}

// sameAmounts reports whether two lists of claims say the same.
func sameAmounts(a, b []claim) bool {
	type place struct{ key, member, amount string }
	count := map[place]int{}
	for _, c := range a {
		count[place{c.key, c.member, c.amount}]++
	}
	for _, c := range b {
		count[place{c.key, c.member, c.amount}]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
