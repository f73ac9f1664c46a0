package replicator

import "context"

// Emptier is a Sink that can remove what a view left in it that has ended: one that the configuration has no more.
type Emptier interface {
	// Left says what is there of a view, by its name alone: nothing if the sink does not know it. An error says why it
	// can't be removed, and how a person can.
	Left(ctx context.Context, view string) ([]Leftover, error)

	// Empty removes that, and nothing else. What the sink remembers of the view stays for Forget.
	Empty(ctx context.Context, view string) error
}

// Leftover is one thing that a view left in a sink.
type Leftover struct {
	What  string // such as "table app.orders_by_email", for a person
	Count int64  // of what Of says
	Of    string // such as "rows"
}
