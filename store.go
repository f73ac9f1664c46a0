package replicator

import (
	"context"
	"iter"
	"time"
)

// Checkpoint is a view's progress with one source, as the store keeps it.
type Checkpoint struct {
	View        string `json:"view"`
	Source      string `json:"source,omitempty"` // the shard's name
	Fingerprint string `json:"fingerprint"`
	Standing
	// Read is how far the source was read when the checkpoint was saved; zero if unknown. The sink has all changes up to
	// Position, and may have some of the changes from Position to Read.
	Read    Position `json:"read,omitzero"`
	Letters bool     `json:"letters,omitempty"` // the store has a letter for every cell that the sink records as dead

	// Shown is the time up to which the view showed all commits when the checkpoint was saved; zero: unknown. While the
	// sink is down, a new process can tell only by Shown how old the oldest missing change is.
	Shown time.Time `json:"shown,omitzero"`

	Unmarked bool `json:"-"` // the sink has no mark of the view yet: the checkpoint only says where the view begins
}

// Store keeps checkpoints and dead letters. Opening it takes a lock, so only one process writes to it at a time.
// Several goroutines may call its methods.
type Store interface {
	Checkpoints(ctx context.Context) ([]Checkpoint, error)

	// Save durably replaces the checkpoints of the named views: all of them or none.
	Save(ctx context.Context, checkpoints []Checkpoint) error

	// Forget removes the checkpoints of a view for every source.
	Forget(ctx context.Context, view string) error

	Layouts
	DeadLetters
	Close() error
}

// Layouts stores table layouts (the columns that a table had at a log position), by digest. A layout is stored before
// any position that names it is saved. Old layouts may be dropped.
type Layouts interface {
	// KeepLayouts durably keeps table layouts. Each key of the map is the digest of its layout.
	KeepLayouts(ctx context.Context, layouts map[string]string) error

	// Layout returns the table layout that has the given digest; "" if the store does not have it.
	Layout(ctx context.Context, digest string) (string, error)
}

// DeadLetters keeps rows that could not be decoded or written, one for each view, source and cell. Each source has its
// own letter, because two shards may both have a row of a cell while the row moves from one to the other.
type DeadLetters interface {
	// Bury durably records dead letters. A letter replaces an older letter of the same view, source and cell.
	Bury(ctx context.Context, letters []DeadLetter) error

	// Raise clears the dead letters of a source's cells, because something newer was applied to the view. Most cells have
	// none, so Raise must be cheap for them.
	Raise(ctx context.Context, view, source string, cells []Cell) error

	// Known returns the number of a cell's dead letter; 0 if there is none. A letter that is recorded again gets a new
	// number. The call costs next to nothing.
	Known(ctx context.Context, view, source string, cell Cell) (number int64, err error)

	// RaiseKnown clears the cell's dead letter, unless a newer letter has replaced the one whose number Known returned.
	RaiseKnown(ctx context.Context, view, source string, cell Cell, number int64) error

	// List yields the dead letters of a view ("": of all views), oldest first, one at a time, because each may take
	// megabytes. Letters that change meanwhile may be missing or included. The first error ends the list. The caller
	// may use the store between two letters.
	List(ctx context.Context, view string) iter.Seq2[DeadLetter, error]

	// Drop removes the dead letters with the given ids, and returns how many it removed.
	Drop(ctx context.Context, ids []string) (int, error)

	// Count returns the number of dead letters of each view.
	Count(ctx context.Context) (map[string]int, error)
}

// DeadLetter is a row that could not be decoded, or whose contribution to a view could not be written.
type DeadLetter struct {
	ID       string // made of view, source and cell, so a cell's next letter has the same ID
	View     string
	Source   string
	Cell     Cell
	Version  int64
	Order    int64
	Position string // for people: FILE:POS of the change, or of the last checkpoint before the change
	Reason   string
	Raw      []byte // the body as stored, or the row's columns as JSON
	Time     time.Time
}
