package replicator

import (
	"context"
	"errors"
	"math/big"
)

// Lister is a Target that can list the cells behind a value of an index, a counter or a ranking.
type Lister interface {
	// ListedBy names the values that List needs for a view: the columns of an index or a group, or the paths in a key's
	// template.
	ListedBy(view int) []string

	// List returns the cells of the target's source that contribute to one place in a view, up to limit. values are
	// texts as listings show them, one for each name of ListedBy. A text that the column can't hold is an ErrNoValue.
	// List may read everything that the sink remembers.
	List(ctx context.Context, view int, values []string, limit int) (Listing, error)
}

// ErrNoValue is the error of looking up a text that the column can't hold.
var ErrNoValue = errors.New("no such value can exist")

// Listing is a view's content at one place, and the cells that it comes from.
type Listing struct {
	Place   string   // for people
	Shown   string   // what readers see there: a sum, or who holds a unique value; "" where they see nothing, or a list
	Cells   []Listed // those that contribute, the first ones
	Count   int      // the number of contributing cells; of an index in MySQL, the number of rows
	Sum     *big.Rat // of all amounts; nil if it is no sum
	Orphans []string // some entries that came from no cell, as far as that can be told
}

// Listed is a cell that contributes to a place. In an index it may be any of an entity's cells.
type Listed struct {
	Cell   Cell
	Amount *big.Rat // nil if it is no sum
}

// Join adds what another part of the sink lists at the same place.
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
