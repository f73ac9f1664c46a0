package replicator

import (
	"context"
	"iter"
	"time"
)

// Checkpoint is how far one view has come with one source, as the store keeps it.
type Checkpoint struct {
	View        string `json:"view"`
	Source      string `json:"source,omitempty"` // the shard's name
	Fingerprint string `json:"fingerprint"`
	Standing
	// a later position, up to which the source was read before; the sink may have some of those changes
	Read    Position `json:"read,omitzero"`
	Letters bool     `json:"letters,omitempty"` // the store was told which cells the sink knows to be dead letters

	// Shown is the time up to which the view showed everything committed, as of the save; zero: unknown. While the sink
	// is down, it alone tells a new process how old the oldest missing change is.
	Shown time.Time `json:"shown,omitzero"`

	Unmarked bool `json:"-"` // it says where the view is to begin, and nothing has been marked in the sink yet
}

// Store keeps checkpoints and dead letters. One process writes to it at a time: opening it takes a lock. Its methods
// may be called from several goroutines.
type Store interface {
	Checkpoints(ctx context.Context) ([]Checkpoint, error)

	// Save replaces the checkpoints of the named views, all of them or none, durably.
	Save(ctx context.Context, checkpoints []Checkpoint) error

	// Forget removes the checkpoints of a view for every source.
	Forget(ctx context.Context, view string) error

	Layouts
	DeadLetters
	Close() error
}

// Layouts keeps the columns that tables of a source had at log positions. A layout is found by its digest, and is kept
// before a position is saved that names it. Old layouts may be forgotten.
type Layouts interface {
	// KeepLayouts keeps layouts, by their digests, durably.
	KeepLayouts(ctx context.Context, layouts map[string]string) error

	// Layout returns the layout with a digest; "" if there is none.
	Layout(ctx context.Context, digest string) (string, error)
}

// DeadLetters keeps rows that could not be decoded or written, one for each view, source and cell. Two shards of a
// source may have a row of one key while an entity moves.
type DeadLetters interface {
	// Bury records dead letters durably. It replaces one of the same view, source and cell.
	Bury(ctx context.Context, letters []DeadLetter) error

	// Raise clears the dead letters of a source's cells, because something newer was applied to the view. It must be
	// cheap for cells that have none, as most.
	Raise(ctx context.Context, view, source string, cells []Cell) error

	// Known returns the number of the dead letter of a source's cell; 0 if there is none. A letter that is recorded
	// again has another number. The call costs next to nothing.
	Known(ctx context.Context, view, source string, cell Cell) (number int64, err error)

	// RaiseKnown clears the dead letter of a source's cell if it still has the number that Known returned.
	RaiseKnown(ctx context.Context, view, source string, cell Cell, number int64) error

	// List yields the dead letters of a view ("": all), oldest first, one at a time because each may hold megabytes. It
	// may miss or include letters that change meanwhile. It ends with the first error. The store may be used between
	// two letters.
	List(ctx context.Context, view string) iter.Seq2[DeadLetter, error]

	// Drop removes dead letters by id and returns how many it removed.
	Drop(ctx context.Context, ids []string) (int, error)

	// Count returns the number of dead letters of each view.
	Count(ctx context.Context) (map[string]int, error)
}

// DeadLetter is a row that could not be decoded, or whose contribution to a view could not be written.
type DeadLetter struct {
	ID       string // made of view, source and cell, so a recurring problem keeps its id
	View     string
	Source   string
	Cell     Cell
	Version  int64
	Order    int64
	Position string // for people: FILE:POS of the checkpoint before it
	Reason   string
	Raw      []byte // the body as stored, or the row's columns as JSON
	Time     time.Time
}
