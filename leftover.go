package replicator

import "context"

// Emptier is a Sink that can remove the data of a former view, that is, one no longer in the configuration.
type Emptier interface {
	// Left lists the data of a view, by its name alone: nothing if the sink does not know it. An error says why the
	// data can't be removed, and what the operator can do.
	Left(ctx context.Context, view string) ([]Leftover, error)

	// Empty removes this data and nothing else. What the sink remembers of the view stays until Forget.
	Empty(ctx context.Context, view string) error
}

// Leftover is one thing that a view left in a sink.
type Leftover struct {
	What  string // such as "table app.orders_by_email", for a person
	Count int64  // of what Of says
	Of    string // such as "rows"
}
