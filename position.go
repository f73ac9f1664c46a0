package replicator

// Position is a point between two transactions in a source's log: everything up to it was read, or applied. Only the
// source that made the Token understands it. Other code compares only the Orders of positions, and only of positions of
// the same view.
//
// An Order is an int64 that grows along the source's log. Every row and every end of a transaction has one. A row has
// the same Order on every replay, and comes after a position exactly if its Order is greater. When the source moves to
// another server, Orders continue above all earlier ones (Source.Open).
//
// A Changelog repeats the changes of another log. The Orders of its rows, and the AsOf of its re-reads, come from the
// other log, so State.Next decides alike whichever log is read. Handler.Commit, Reader.Locate and Row.Place use
// positions in the Changelog itself. Orders of the two logs are never compared.
type Position struct {
	Order int64  `json:"order"`
	Token string `json:"token"`
}

// EpochShift is how many low bits of an Order hold the log position. The bits above them hold the epoch.
const EpochShift = 54

// EpochOf returns the epoch of an Order. The epoch grows when a source moves to another server, or begins a new log.
// The Orders of two epochs don't tell which change came first, but the higher epoch always wins.
//
// An epoch exists once a sink holds a mark with it (Target.Mark). So no state in a sink has a higher epoch than its
// view's mark. A process that finds a mark with a higher epoch than its own knows that all its writes would be stale
// (Overtaken).
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
