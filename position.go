package replicator

// Position is a log position between two transactions of a source, up to which everything was read or applied. Only the
// source that made it understands Token. The core compares Orders, and only within one view's positions.
//
// An Order is an int64 that grows along the source's log. Every row and every transaction's end has one. A row has the
// same Order on every replay. A row comes after a position exactly if its Order is greater. When the source moves to
// another server, Orders continue above all earlier ones (Source.Open).
//
// A Changelog is a log whose records repeat another log. The Orders of rows, and the AsOf of re-reads, are those of the
// other log, so a cell's ops are judged alike wherever they were read. Handler.Commit, Reader.Locate and Row.Place use
// positions in the log that is read. The two kinds are never compared.
type Position struct {
	Order int64  `json:"order"`
	Token string `json:"token"`
}

// EpochShift is the number of an Order's low bits. The high bits hold its epoch.
const EpochShift = 54

// EpochOf returns the epoch of an Order. It grows when a source moves to another server, or begins another log. Orders
// of two epochs don't tell which came first, but the higher epoch counts.
//
// An epoch exists once a sink has registered it, by a mark in it (Target.Mark). So no state in a sink has a higher
// epoch than its view's mark. A process that finds a higher mark than its own knows that all its writes would be stale
// (Overtaken).
func EpochOf(order int64) int { return int(order >> EpochShift) }

// Epoch is the epoch of the position's Order.
func (p Position) Epoch() int { return EpochOf(p.Order) }

// IsZero reports whether there is no position.
func (p Position) IsZero() bool { return p.Token == "" }

// Lower returns the position with the lower Order.
func (p Position) Lower(o Position) Position {
	if o.Order < p.Order {
		return o
	}
	return p
}
