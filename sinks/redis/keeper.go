package redis

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"replicator"
	"replicator/sinks/judge"
)

// viewID identifies a view of a source in records. It is the beginning of a hash of both names, so no list of ids must
// be stored.
type viewID string

const viewIDSize = 6

func idOf(source, view string) viewID {
	if source != "" {
		view += "\x00" + source
	}
	sum := sha256.Sum256([]byte(view))
	return viewID(sum[:viewIDSize])
}

// keeper keeps one view.
type keeper struct {
	view       *replicator.View
	index      int      // the view's index in Target.views
	names      []string // the names of the view's fields
	id         viewID   // the view's id in records, for the target's source
	shows      viewID   // the view's id in changes of keys; one for all sources that an entity may move between
	ids        []viewID // the view's ids in records: for the target's source, then for each source in fellows
	fellows    []string // the names of the other sources that an entity may move to
	generation uint64   // only states of this generation count; a redefined view begins a new one
	evicted    int64    // the count of evictions in the view's mark when the view was opened: see evictions
	filling    bool     // the view was being filled when it was opened
	former     bool     // the view may still show contributions of an earlier definition
	kind       byte     // what cells put into the view: kindHash, kindSet, …
	goes       goes     // when a key expires after a change that adds something at the key

	disowned *atomic.Uint64 // later generations in records are ignored up to this one: see Target.disown
}

func newKeeper(v *replicator.View, index int) (*keeper, error) {
	k := &keeper{view: v, index: index, disowned: new(atomic.Uint64)}
	k.feedBy("", nil)
	for _, f := range v.Fields {
		k.names = append(k.names, f.Name)
	}
	switch v.Kind {
	case "hash":
		k.kind = kindHash
	case "json":
		k.kind = kindJSON
	case "index":
		switch {
		case settingsOf(v).Unique:
			k.kind = kindUnique
		case v.Member != "":
			k.kind = kindMembers
		default:
			k.kind = kindSet
		}
	case "counter":
		k.kind = kindCounter
	case "ranking":
		k.kind = kindRanking
	default:
		return nil, replicator.Fatal(fmt.Errorf("a Redis sink keeps no views of kind %q; "+
			"it keeps hash, json, index, counter and ranking", v.Kind))
	}
	k.goes = goes(settingsOf(v).Expire.Milliseconds())
	if v.Key == "" {
		return nil, replicator.Fatal(errors.New("it has no key: set key to a template"))
	}
	return k, nil
}

// feedBy sets the source that feeds the view, and the other sources that the view's entities may move to. A Kafka
// partition is the only kind of source with a slash in its name. Its entities can move only to partitions of other
// topics.
func (k *keeper) feedBy(source string, others []string) {
	k.id, k.shows = idOf(source, k.view.Name), idOf("", k.view.Name)
	if strings.Contains(source, "/") && len(others) == 0 {
		k.shows = k.id
	}
	k.ids, k.fellows = []viewID{k.id}, others
	for _, other := range others {
		k.ids = append(k.ids, idOf(other, k.view.Name))
	}
}

// maxName is how many bytes a key and its member may have together. Redis accepts 512 MB, but records, scripts'
// arguments and their copies in memory repeat the text: a name of 10 MB takes the process 300 MB.
const maxName = 64 << 10

// claims converts a value to claims.
func (k *keeper) claims(a *arena, cell replicator.Cell, value *replicator.Value) ([]claim, error) {
	if value.Err != nil || len(value.Entries) == 0 {
		return nil, nil
	}
	claims := a.claims.take(len(value.Entries))
	for i := range value.Entries {
		e := &value.Entries[i]
		if n := len(e.Key) + len(e.Member); n > maxName {
			return nil, fmt.Errorf("its key and member would have %d bytes, and may have %d: leave long texts out of "+
				"templates", n, maxName)
		}
		c := claim{kind: k.kind, key: e.Key}
		switch k.kind {
		case kindHash, kindJSON:
			if i > 0 {
				return nil, errors.New("a cell gives one row, not several")
			}
			var err error
			if c.row, err = k.row(a, cell, e.Fields); err != nil {
				return nil, err
			}
		case kindCounter, kindRanking:
			if len(e.Fields) == 0 || e.Fields[len(e.Fields)-1] == nil {
				continue
			}
			var err error
			if c.amount, err = decimalText(e.Fields[len(e.Fields)-1]); err != nil {
				return nil, err
			}
			if k.kind == kindRanking {
				c.member = e.Member
				if err := isScore(c.amount); err != nil {
					return nil, err
				}
			} else if c.amount == "0" {
				continue
			}
		default:
			c.member = e.Member
		}
		claims = append(claims, c)
	}
	if k.kind == kindSet || k.kind == kindMembers || k.kind == kindUnique {
		claims = distinct(claims)
	}
	return claims, nil
}

// distinct removes duplicates among a cell's claims.
func distinct(claims []claim) []claim {
	if len(claims) < 2 {
		return claims
	}
	seen := make(map[claim]bool, len(claims))
	return slices.DeleteFunc(claims, func(c claim) bool {
		again := seen[c]
		seen[c] = true
		return again
	})
}

// row returns a cell's contribution to a hash or a JSON object: the fields that it has.
func (k *keeper) row(a *arena, cell replicator.Cell, values []any) (*row, error) {
	if len(values) != len(k.view.Fields) {
		return nil, fmt.Errorf("it has %d fields, the view %d", len(values), len(k.view.Fields))
	}
	r := a.rows.new()
	r.kept, r.whole, r.fields = k.merges(cell), true, a.fields.take(len(values))
	a.digester.begin()
	for i, v := range values {
		if v == nil {
			continue
		}
		f := field{name: k.view.Fields[i].Name}
		var err error
		if f.value, err = a.text(k.kind, v); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
		r.fields = append(r.fields, f)
		a.digester.add(f)
	}
	r.digest = a.digester.sum()
	return r, nil
}

// merges reports whether other cells of the same key may feed the view. The record then keeps the values of each
// contribution.
func (k *keeper) merges(cell replicator.Cell) bool {
	return judge.Shares(k.view, func(string) bool { return cell.Column != "" })
}

// known returns the sink's knowledge of a cell in the view, from its record. The state of another generation doesn't
// count. It only shows that something must still be removed: a contribution, a dead letter, or a row that the view
// shows instead of another source's (judge.Fellow.Leads).
func (k *keeper) known(v *viewRecord) judge.Known {
	switch {
	case v == nil:
		return judge.Unseen
	case v.generation != k.generation:
		return judge.Known{State: replicator.Unseen, Shown: v.claims != "" || v.state.Version != replicator.NoVersion}
	}
	return judge.Known{State: v.state, Shown: v.contributes(), Dead: v.dead()}
}

// The sink's own keys. In a cluster, a key beside a user's key is in the same slot as the user's key.
const (
	prefix       = "replicator:"
	entityPrefix = prefix + "entity:"
	marksPrefix  = prefix + "marks:"
	sumPrefix    = prefix + "sum:"    // exact sums; for a ranking, also the number of claims of each member
	claimPrefix  = prefix + "claims:" // for kindMembers and kindUnique: how many cells contribute each member
	postPrefix   = prefix + "posts:"  // in a cluster: what each entity contributes to a key
)

// escapeSource escapes colons in a source's name, so that keys of two sources are never the same.
var escapeSource = strings.NewReplacer("%", "%25", ":", "%3A")

// recordKey returns the key of an entity's record. text is the entity's key.
func recordKey(text string) string { return entityPrefix + ":" + text }

// entityOf returns the entity's key, given the key of its record.
func entityOf(record string) string { return strings.TrimPrefix(record, entityPrefix+":") }

// beside returns the sink's key with the sums or claims of a user's key, in the same slot; "" if the kind has neither.
func beside(kind byte, key string) string {
	switch kind {
	case kindCounter, kindRanking:
		return sumPrefix + sameSlot(key)
	case kindMembers, kindUnique:
		return claimPrefix + sameSlot(key)
	}
	return ""
}
