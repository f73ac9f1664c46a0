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
	// a later place, up to which the source was read before; some of that may be in the sink
	Read    Position `json:"read,omitzero"`
	Letters bool     `json:"letters,omitempty"` // the store was told which cells the sink knows to be dead letters

	// Shown is up to when the view showed all that was committed, as of the save; zero: not known. While the sink is down
	// nothing else tells a new process how old the oldest change is that the view lacks.
	Shown time.Time `json:"shown,omitzero"`

	Unmarked bool `json:"-"` // it says where the view is to begin, and nothing of that has been marked in the sink yet
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

// Layouts keeps what columns tables of a source had at places that positions name. A layout is found by its digest; it is
// kept before a position is saved that names it. Those that were kept long ago may be forgotten.
type Layouts interface {
	// KeepLayouts keeps layouts, by their digests, durably.
	KeepLayouts(ctx context.Context, layouts map[string]string) error

	// Layout is what was kept by a digest; "" if that is nothing.
	Layout(ctx context.Context, digest string) (string, error)
}

// DeadLetters keeps what could not be decoded or written, one for each view, source and cell: two shards of a source may
// have a row of one key while an entity moves.
type DeadLetters interface {
	// Bury saves dead letters durably; one of the same view, source and cell is replaced.
	Bury(ctx context.Context, letters []DeadLetter) error

	// Raise removes the dead letters of a source's cells, because something newer was applied to the view. Most cells have
	// none: it must be cheap then.
	Raise(ctx context.Context, view, source string, cells []Cell) error

	// Known returns the number of the dead letter of a source's cell; 0 if there is none. One that is buried again has
	// another number. It costs next to nothing.
	Known(ctx context.Context, view, source string, cell Cell) (number int64, err error)

	// RaiseKnown removes the dead letter of a source's cell if it has the number still that Known returned.
	RaiseKnown(ctx context.Context, view, source string, cell Cell, number int64) error

	// List gives the dead letters of a view ("": all), oldest first, one after another: each may hold megabytes. Those
	// that are buried or removed meanwhile may be among them or not. It ends with the first error. The store may be used
	// between two of them.
	List(ctx context.Context, view string) iter.Seq2[DeadLetter, error]

	// Drop removes dead letters by id and returns how many there were.
	Drop(ctx context.Context, ids []string) (int, error)

	// Count returns how many there are for each view.
	Count(ctx context.Context) (map[string]int, error)
}

// DeadLetter is a row that could not be decoded, or whose contribution to a view could not be written.
type DeadLetter struct {
	ID       string // made of view, source and cell: the same trouble again has the same id
	View     string
	Source   string
	Cell     Cell
	Version  int64
	Order    int64
	Position string // for a person: FILE:POS of the checkpoint before it
	Reason   string
	Raw      []byte // the body as stored, or the row's columns as JSON
	Time     time.Time
}
