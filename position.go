package replicator

// Position is a place between two transactions of a source, up to which everything was read or applied. Only the source
// that made it understands Token; the core compares Orders, and only of one view's positions.
//
// An Order is an int64 that grows along the source's log: every row has one, every transaction's end has one, and a
// row's is the same on every replay. A row stands after a position exactly if its Order is greater. When the source
// moves to another server, Orders go on above all earlier ones (Source.Open).
//
// A Changelog is a log of its own, whose records carry what another log says: the Orders of rows, and the AsOf of
// looks, are of that other log, by which a cell's ops are judged wherever they were read. Those of positions
// (Handler.Commit, Reader.Locate, Row.Place) are places in the log that is read. The two are never compared.
type Position struct {
	Order int64  `json:"order"`
	Token string `json:"token"`
}

// EpochShift is how many of an Order's low bits are below its epoch, which the high bits hold.
const EpochShift = 54

// EpochOf returns the epoch of an Order. It grows when a source moves to another server, or begins another log: Orders
// of two epochs say nothing of what came first, but that those of the higher one count.
//
// An epoch exists once a sink has registered it, by a mark of it (Target.Mark). So no state in a sink is of a higher
// epoch than the mark of its view, and who finds a higher one there knows that all that he would write is stale
// (Overtaken).
func EpochOf(order int64) int { return int(order >> EpochShift) }

// Epoch is that of the position's Order.
func (p Position) Epoch() int { return EpochOf(p.Order) }

// IsZero reports whether there is no position.
func (p Position) IsZero() bool { return p.Token == "" }

// Lower is the one of two positions that has the lower order.
func (p Position) Lower(o Position) Position {
	if o.Order < p.Order {
		return o
	}
	return p
}
