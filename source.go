package replicator

import (
	"context"
	"time"
)

// Source is one server whose changes are replicated (one shard of a logical database).
type Source interface {
	// Name is the shard's name; "" for a source without shards.
	Name() string

	// Latest is the current end of the log, and Oldest the first position that can still be read. Their Orders continue
	// the stream of the known positions: if the newest of these was made on another server, they are above it.
	Latest(ctx context.Context, known []Position) (Position, error)
	Oldest(ctx context.Context, known []Position) (Position, error)

	// Open returns a reader that starts at the earliest of the given positions, in the newest one's epoch. It proves
	// that the log is the one that they were read from, and that it has everything that had been read when they were
	// made. On another server that has everything, it continues with Orders above every earlier one. Start then differs
	// from the given positions, and must be saved before anything read is applied. If reading can't continue from a
	// position, the error wraps ErrLost. Another server without proof is a Fatal error. Only the named tables are read
	// (all, if none is named); events that concern other tables are no errors.
	Open(ctx context.Context, at []Position, tables ...string) (Reader, error)

	// Includes reports whether p is known to include everything that q does, even if they were made on two servers.
	Includes(p, q Position) bool

	// Identities describes the cells and versions of each table, as the source has the table now. Equal texts mean
	// equal definitions. The first byte describes the versions, the rest the cells. A part after NamesGiven matters
	// only to views of all columns. A table that can't be read is left out: opening it gives the reason.
	Identities(ctx context.Context, tables []string) (map[string]string, error)

	// SameKeys fails with ErrOtherKeys if the tables' keys can't be compared: a number and a text, say, or texts that
	// one column treats as equal and another does not. The error names both columns.
	SameKeys(ctx context.Context, tables []string) error
}

// Changelog is a Source whose log contains every cell from its beginning: each change of a cell in order, or at least
// its newest row. A fill reads the log from there, in order, and scans nothing. A scan beside the tail would bring
// older changes after newer ones. That is harmless only if a deleted row can't come back.
type Changelog interface {
	Source

	// Lacks returns those of the cells for which the current log has neither the given version nor a higher one. A
	// compacted log need not keep deletes forever. And a log that was lost and rewritten knows nothing of versions
	// deleted in between. Lacks fails while the log itself is being filled, if there are such cells.
	Lacks(ctx context.Context, cells []Cell, versions []int64) ([]Cell, error)

	// Holds reports whether the cell belongs to this log, if any has it: other logs of the same origin hold other
	// cells. It is known once the beginning was read.
	Holds(c Cell) bool

	// Remembers reports whether the log still tells of every cell that it said was gone since a time. A reader that began
	// then, and has read to the end, has missed no such cell.
	Remembers(ctx context.Context, since time.Time) (bool, error)
}

// Reader reads one source for one pipeline. Its Orders continue those of its Start. Read is called once, from one
// goroutine. The other methods may be called from others at the same time.
type Reader interface {
	// Start is where reading begins.
	Start() Position

	// Read delivers everything after Start to h, in order, until ctx is done or it fails. The next Reader delivers an
	// interrupted transaction again, with the same Orders.
	Read(ctx context.Context, h Handler) error

	// Position returns the latest transaction end at or before order, for an order that Handler.Commit was given.
	// Orders must not fall from call to call, because earlier ends are forgotten. A later call for the same order
	// returns more: how far has been read since.
	Position(order int64) Position

	// File is the number of the latest file of the source's log from which rows were handed out, by Read or by what reads
	// tables. It never falls. A Position that is asked for after that names the file, so that a saved one shows later
	// whether the log is still the same. 0: the log has no files.
	File() int64

	// Locate shows an Order to people as FILE:POS.
	Locate(order int64) string

	// Latest is the current end of the source's log, in this reader's Orders.
	Latest(ctx context.Context) (Position, error)

	// Newest reads the current newest rows of the first of the cells, in their order. A row is nil if none is left, or
	// if the key is written differently there (see Spellings). It returns as many rows as fit into the number of bytes,
	// at least one; all if that is 0. Everything up to asOf is included (a fenced read); later commits may be.
	Newest(ctx context.Context, cells []Cell, bytes int64) (rows []*Row, asOf int64, err error)

	// Scan reads the next rows of a table in the order of its offset, after the Next of an earlier chunk ("": from the
	// start). It reads only cells of the given column values, all if columns is empty. A scan from the start may choose
	// another order, and leave out rows that are not the newest of their cells.
	Scan(ctx context.Context, table string, columns []string, after string, limit ScanLimit) (Chunk, error)

	// Includes reports whether everything that the fence names (a GTID set, or FILE:POS) was committed at or before p.
	Includes(ctx context.Context, p Position, fence string) (bool, error)

	// Cells returns the next cells that a table has rows of, in the order of their keys. It continues after the next of
	// an earlier call ("" at first). An empty next is the end. It returns only cells of the given column values, all if
	// columns is empty.
	Cells(ctx context.Context, table string, columns []string, after string,
		limit int) (cells []Cell, next string, err error)

	// Siblings returns all cells that the table has rows of with the given keys, of every column and every variant of
	// the key.
	Siblings(ctx context.Context, table string, keys []Key) ([]Cell, error)

	// Referring returns the cells of the rows that References of one Lookup concern, and perhaps some more, in the
	// order of their keys. It continues after the next of an earlier call ("" at first). An empty next is the end. It
	// sees every reference that was handed out before.
	Referring(ctx context.Context, refs []Reference, after string, limit int) (cells []Cell, next string, err error)

	// MixesSpellings reports whether a table has several rows per cell, and treats different keys as equal.
	MixesSpellings(table string) bool

	// Spellings finds keys that the source also has rows of in another variant, such as "ABC" for "abc". For each it
	// returns the cells of every column and variant. It sees every row that was handed out before.
	Spellings(ctx context.Context, table string, keys []Key) ([][]Cell, error)

	// Estimate is the approximate number of rows of a table.
	Estimate(ctx context.Context, table string) (int64, error)

	// Close frees the reader's resources. The caller ensures that Read has returned.
	Close() error
}

// ScanLimit bounds a chunk: it ends at the first bound reached, but passes at least one row.
type ScanLimit struct {
	Rows  int   // that are passed
	Bytes int64 // of the rows that are returned
}

// Chunk is a piece of a scan. Every row in it was read after Low and before High was taken. It contains every change up
// to Low and may contain some up to High. The rows' Order is Low. So is their Version if log positions are the
// versions.
type Chunk struct {
	Rows   []*Row
	Passed int // rows of the table that the scan has passed, including those that it left out
	// Total is the approximate number of rows that the whole scan passes, if it reads only some columns' cells. 0: all
	// rows of the table, or unknown.
	Total     int64
	Low, High int64
	Next      string // where the next chunk continues; opaque
	Done      bool   // nothing is left
}

// Handler takes what a Reader reads. Its methods are called from one goroutine.
type Handler interface {
	// Change may block: that is how a slow sink slows down its reader. An error ends Read. The reader may reuse the
	// Change after the call; the handler owns its Row.
	Change(ctx context.Context, c *Change) error

	// Refer reports a change of a row that other rows carry (Table.Lookups), after the row's own Change. It is called
	// once for the old values and once for the new ones, if they differ. It may block, and an error ends Read.
	Refer(ctx context.Context, ref *Reference) error

	// Commit says that everything up to order has been delivered, and that a transaction ends there. at is the commit
	// time (zero if unknown). It is also called once the source has begun to send its log, for transactions without a
	// watched row, and when the source is idle.
	Commit(order int64, at time.Time)

	// Unlogged reports that rows of a table changed up to an order, and that the log does not say which (ErrUnlogged):
	// a TRUNCATE, a statement logged as text, another table renamed into the place of the watched one, or rows that
	// can't be read or don't identify their cell. Returning err ends reading. If it returns nil, reading continues with
	// the table that has the name from then on.
	Unlogged(table string, order int64, err error) error
}
