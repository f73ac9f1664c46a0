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

// viewID identifies, in records, a view as fed by one source. It is the beginning of a hash of the view's and the
// source's names, so it is computed, and no list of ids is stored.
type viewID string

const viewIDSize = 6

func idOf(source, view string) viewID {
	if source != "" {
		view += "\x00" + source
	}
	sum := sha256.Sum256([]byte(view))
	return viewID(sum[:viewIDSize])
}

// keeper maintains one view of a Target.
type keeper struct {
	view       *replicator.View
	index      int      // the view's index in Target.views
	names      []string // the names of the view's fields, in the view's order
	id         viewID   // in records: the view as fed by the target's source
	shows      viewID   // in viewKey: the view as fed by all sources that may have rows of one entity
	ids        []viewID // in records: the view as fed by the target's source, then as fed by each of `fellows`
	fellows    []string // the names of the other sources that may have rows of the same entities
	generation uint64   // number of the view's present definition: states with another number don't count
	evicted    int64    // how many keys the servers had evicted, according to the view's mark at Open
	filling    bool     // the view was being filled when it was opened
	former     bool     // the view may still show contributions of an earlier definition
	kind       byte     // what the view consists of: kindHash, kindSet, …
	goes       goes     // when a key expires after a change that adds something to it

	disowned *atomic.Uint64 // states of later generations, up to this one, don't count either: see Target.disown
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

// feedBy sets the source that feeds the view, and the other sources that may have rows of the same entities. A source
// with a slash in its name is a Kafka partition. Other partitions of its topic never have rows of the same entities.
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
// arguments and their copies repeat the text: a name of 10 MB takes the process 300 MB.
const maxName = 64 << 10

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
				return nil, fmt.Errorf("the row gives %d entries, but a %s view holds one per row", len(value.Entries),
					k.view.Kind)
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

// row returns a cell's contribution to a hash or a JSON object. It leaves out fields that are missing or NULL.
func (k *keeper) row(a *arena, cell replicator.Cell, values []any) (*row, error) {
	if len(values) != len(k.view.Fields) {
		return nil, fmt.Errorf("the row gives %d fields, but the view has %d", len(values), len(k.view.Fields))
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

// merges reports whether other cells of the same key may feed the view. If so, the record keeps the values of each
// cell's fields, because the merged row must be made again when another cell changes.
func (k *keeper) merges(cell replicator.Cell) bool {
	return judge.Shares(k.view, func(string) bool { return cell.Column != "" })
}

// known returns what the record says of a cell in the view. A state of another generation (of an earlier definition)
// doesn't count: it only shows that something must still be removed.
func (k *keeper) known(v *viewRecord) judge.Known {
	switch {
	case v == nil:
		return judge.Unseen
	case v.generation != k.generation:
		return judge.Known{State: replicator.Unseen, Shown: v.claims != "" || v.state.Version != replicator.NoVersion}
	}
	return judge.Known{State: v.state, Shown: v.contributes(), Dead: v.dead()}
}

// The beginnings of the sink's own keys. In a cluster, a key that begins with sumPrefix, claimPrefix or postPrefix is
// in the same slot as the user's key that it belongs to.
const (
	prefix       = "replicator:"
	entityPrefix = prefix + "entity:"
	marksPrefix  = prefix + "marks:"
	sumPrefix    = prefix + "sum:"    // exact sums; for a ranking, also how many cells contribute to each member
	claimPrefix  = prefix + "claims:" // for kindMembers and kindUnique: how many cells contribute each member
	postPrefix   = prefix + "posts:"  // in a cluster: what each entity contributes to a key
)

// escapeSource escapes colons in a source's name, so that keys of two sources are never the same.
var escapeSource = strings.NewReplacer("%", "%25", ":", "%3A")

func recordKey(text string) string { return entityPrefix + ":" + text }

func entityOf(record string) string { return strings.TrimPrefix(record, entityPrefix+":") }

// beside returns the sink's own key that has the sums, or the counts of members, of a user's key; "" if the kind has
// none. In a cluster, both keys are in the same slot.
func beside(kind byte, key string) string {
	switch kind {
	case kindCounter, kindRanking:
		return sumPrefix + sameSlot(key)
	case kindMembers, kindUnique:
		return claimPrefix + sameSlot(key)
	}
	return ""
}
