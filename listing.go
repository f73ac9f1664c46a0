package replicator

import (
	"context"
	"errors"
	"math/big"
)

// Lister is a Target that can list the cells behind a value of an index, a counter or a ranking.
type Lister interface {
	// ListedBy names the values that List needs for a view: columns of the index or group, or paths in the key's template.
	ListedBy(view int) []string

	// List returns up to limit cells of the target's source that contribute to one entry of a view. values are the entry's
	// values as texts, one for each name of ListedBy. A text that the column can't hold is an ErrNoValue. List may read
	// everything that the sink remembers.
	List(ctx context.Context, view int, values []string, limit int) (Listing, error)
}

// ErrNoValue means that the text to look up can't be a value of the column.
var ErrNoValue = errors.New("the column can't have this value")

// Listing is one entry of a view, and the cells that contribute to it.
type Listing struct {
	Place string // the entry's name in messages, such as "key user:7"
	// Shown is the sum that readers see, or the key of the one row that has a unique value. It is "" for entries that
	// list several rows, and for missing entries.
	Shown   string
	Cells   []Listed // contributing cells, at most as many as List's limit
	Count   int      // the number of contributing cells; for an index in MySQL, the number of rows
	Sum     *big.Rat // the total of all amounts; nil if the view has no amounts
	Orphans []string // members of the entry that came from no cell, up to List's limit; nil if the sink can't tell
}

// Listed is one contributing cell of a Listing. An index in MySQL knows only the key, so Cell may be another cell with
// the same key.
type Listed struct {
	Cell   Cell
	Amount *big.Rat // the cell's amount; nil if the view has no amounts
}

// Join adds what another part of the sink, such as a shard, lists for the same entry.
func (l *Listing) Join(other Listing, limit int) {
	l.Place = other.Place
	if other.Shown != "" {
		l.Shown = other.Shown
	}
	l.Count += other.Count
	l.Cells = append(l.Cells, other.Cells...)
	l.Cells = l.Cells[:min(len(l.Cells), limit)]
	l.Orphans = append(l.Orphans, other.Orphans...)
	l.Orphans = l.Orphans[:min(len(l.Orphans), limit)]
	if other.Sum != nil {
		if l.Sum == nil {
			l.Sum = new(big.Rat)
		}
		l.Sum.Add(l.Sum, other.Sum)
	}
}

// Add adds a cell that contributes, with its amount if there is one.
func (l *Listing) Add(c Listed, limit int) {
	l.Count++
	if c.Amount != nil && l.Sum != nil {
		l.Sum.Add(l.Sum, c.Amount)
	}
	if len(l.Cells) < limit {
		l.Cells = append(l.Cells, c)
	}
}
