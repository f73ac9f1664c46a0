package replicator

import "context"

// Emptier is a Sink that can remove the data of a view that is no longer in the configuration.
type Emptier interface {
	// Left lists the data that a view left in the sink. It needs only the view's name. The list is empty if the sink
	// does not know the view. An error says why the data can't be removed, and what the operator can do.
	Left(ctx context.Context, view string) ([]Leftover, error)

	// Empty removes what Left lists, and nothing else. What the sink remembers of the view stays until Forget.
	Empty(ctx context.Context, view string) error
}

// Leftover is one thing that a view left in a sink.
type Leftover struct {
	What  string // the leftover, for people, such as "table app.orders_by_email"
	Count int64  // the number of rows, keys or documents
	Of    string // what Count counts: "rows", for example
}
