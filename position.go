package replicator

// Position is a point between two transactions in a source's log: everything up to it was read, or applied. Only the
// source that made the Token understands it.
//
// An Order is an int64 that grows along the source's log. Every row and every end of a transaction has one, the same on
// every replay. A row comes after a position exactly if its Order is greater. When the source moves to another server,
// Orders continue above all earlier ones.
//
// A Changelog repeats the changes of another log, and its rows keep the Orders of that log. A position in the Changelog
// itself (Handler.Commit, Reader.Locate, Row.Place) is never compared with such an Order.
type Position struct {
	Order int64  `json:"order"`
	Token string `json:"token"`
}

// EpochShift is how many low bits of an Order hold the log position. The bits above them hold the epoch.
const EpochShift = 54

// EpochOf returns the epoch of an Order, which grows when a source moves to another server or begins a new log. The
// higher epoch always wins, whichever change came first. An epoch exists once a sink holds a Mark with it, so no state
// in a sink has a higher epoch than its view's Mark. A process that finds a higher epoch than its own in the sink
// knows that all its writes would be stale (Overtaken).
func EpochOf(order int64) int { return int(order >> EpochShift) }

// Epoch is the epoch of the position's Order.
func (p Position) Epoch() int { return EpochOf(p.Order) }

// IsZero reports whether p is the zero Position, which stands for no position.
func (p Position) IsZero() bool { return p.Token == "" }

// Lower returns the position with the lower Order.
func (p Position) Lower(o Position) Position {
	if o.Order < p.Order {
		return o
	}
	return p
}
