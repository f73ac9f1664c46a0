package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/remedy"
	"replicator/server"
)

// Listing describes the part of a view that belongs to one value of an index, or to one group of a counter or ranking,
// and how many cells contribute to that part.
type Listing struct {
	View    string          `json:"view"`
	Place   string          `json:"place"`           // the value or group, as messages name it
	Shown   string          `json:"shown,omitempty"` // the sum in the sink, or the entity that a unique index shows
	Sum     json.RawMessage `json:"sum,omitempty"`   // what the sum should be: that of all contributing cells' amounts
	Cells   int             `json:"cells"`
	Orphans []string        `json:"orphans,omitempty"` // entries of the value or group that came from no cell
	Why     string          `json:"why,omitempty"`     // what is wrong with the value or group as a whole; "": nothing
}

// MaxListed is the maximum number of cells of a listing that are explained.
const MaxListed = 50

// Listed says how a listing is selected: by a value of an index, or by a group of a counter or ranking.
type Listed string

const (
	ByValue Listed = "value"
	ByGroup Listed = "group"
)

// suits returns an error if a view of this kind can't be listed in the given way: by value, or by group.
func (by Listed) suits(view *replicator.View) error {
	own := ByGroup
	switch view.Kind {
	case "index":
		own = ByValue
	case "counter", "ranking":
	default:
		return fmt.Errorf("--value is for indexes and --group for counters and rankings, but view %s is a %s. "+
			"Use `replicator explain %s KEY` to see one entity", view.Name, view.Kind, view.Name)
	}
	if own != by {
		return fmt.Errorf("--%s doesn't apply to a view of kind %s. Use --%s", by, view.Kind, own)
	}
	return nil
}

// List returns the listing of one value or group of a view. It also returns explanations of the first MaxListed cells
// that contribute to the value or group.
func List(ctx context.Context, setup Setup, view *replicator.View, by Listed, values []string) (
	found Listing, all []Explanation, err error,
) {
	if err := by.suits(view); err != nil {
		return found, nil, InvalidError{err}
	}
	if err := asksTables(setup.Config, "explain"); err != nil {
		return found, nil, err
	}
	letters, err := lettersByCell(ctx, setup.Config, view.Name)
	if err != nil {
		return found, nil, err
	}
	in := setup.inspector()
	defer func() { err = errors.Join(err, in.close()) }()
	var whole replicator.Listing
	for _, shard := range setup.Config.Source.Shards {
		some, explained, err := in.list(ctx, shard, view, by, values, letters, MaxListed-len(all))
		if err != nil {
			return found, nil, err
		}
		whole.Join(some, MaxListed)
		all = append(all, explained...)
	}
	setup.complete(all)
	found = showListing(view, whole)
	found.Why = remedy.File(setup.Config.Path).In(found.Why)
	return found, all, nil
}

func (in *inspector) list(ctx context.Context, shard config.Shard, view *replicator.View, by Listed, values []string,
	letters map[replicator.Cell][]server.Letter, limit int) (found replicator.Listing, all []Explanation, err error) {
	o, err := in.inspect(ctx, shard, view)
	if err != nil {
		return found, nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	lister, ok := o.target.(replicator.Lister)
	if !ok {
		return found, nil, InvalidError{fmt.Errorf("sink %s can't list the cells that contribute to a value or group. "+
			"Use `replicator explain %s KEY` to see one entity", view.Sink, view.Name)}
	}
	if values, err = split(lister.ListedBy(0), by, values); err != nil {
		return found, nil, InvalidError{err}
	}
	found, err = lister.List(ctx, 0, values, limit)
	if errors.Is(err, replicator.ErrNoValue) {
		err = InvalidError{err}
	}
	if err != nil {
		return found, nil, err
	}
	done := map[replicator.Cell]bool{}
	for _, c := range found.Cells {
		cells := []replicator.Cell{c.Cell}
		if c.Amount == nil { // in an index, any cell of the entity may have contributed the value
			if cells, err = o.cellsOf(ctx, view, c.Cell.Key.String()); err != nil {
				return found, nil, err
			}
		}
		cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return done[c] })
		if len(cells) == 0 {
			continue
		}
		some, err := o.explain(ctx, shard, view, cells, letters)
		if err != nil {
			return found, nil, err
		}
		for i := range some {
			done[cells[i]] = true
			some[i].Amount = numberText(c.Amount)
		}
		all = append(all, some...)
	}
	return found, all, nil
}

// split splits a single text, such as "a:b", into a value for each of the columns in names. If there are several
// values, they are split already.
func split(names []string, by Listed, values []string) ([]string, error) {
	if len(values) == 1 && len(names) > 1 {
		values = strings.SplitN(values[0], ":", len(names))
		for i := range len(values) - 1 {
			values[i] = replicator.UnescapePart(values[i])
		}
	}
	if len(values) != len(names) {
		return nil, fmt.Errorf("in this view, a %s consists of %s. Give each with --%s, in this order", by,
			strings.Join(names, ", "), by)
	}
	return values, nil
}

// numberText formats an exact number in decimal digits. It returns nil for nil.
func numberText(n *big.Rat) json.RawMessage {
	if n == nil {
		return nil
	}
	digits, _ := n.FloatPrec() // n has finitely many digits, because amounts are decimals
	return json.RawMessage(n.FloatString(digits))
}

// showListing converts a listing for display. It sets Why if the sum is wrong, or if there are orphans (entries that
// came from no cell).
func showListing(view *replicator.View, l replicator.Listing) Listing {
	shown := Listing{View: view.Name, Place: l.Place, Shown: l.Shown, Sum: numberText(l.Sum), Cells: l.Count, Orphans: l.Orphans}
	repair := "another program changed it (`replicator verify --repair " + view.Name + "` corrects it)"
	switch {
	case len(l.Orphans) > 0:
		shown.Why = "another program wrote entries that belong to no cell (`replicator verify --repair " + view.Name +
			"` removes them)"
	case l.Sum == nil:
	case l.Shown == "" && l.Sum.Sign() != 0:
		shown.Why = "the sink has no sum: " + repair
	case l.Shown != "" && !isSum(view, l.Shown, l.Sum):
		shown.Why = "the sum in the sink differs from the sum of the cells: " + repair
	}
	return shown
}

// isSum reports whether shown equals sum. A ranking stores the nearest double, so isSum compares doubles then.
func isSum(view *replicator.View, shown string, sum *big.Rat) bool {
	n, ok := new(big.Rat).SetString(shown)
	if !ok {
		return false
	}
	if view.Kind == "ranking" {
		a, _ := n.Float64()
		b, _ := sum.Float64()
		return a == b
	}
	return n.Cmp(sum) == 0
}
