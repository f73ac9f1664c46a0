package replicator

import (
	"context"
	"time"
)

// Source is one server whose changes are replicated (one shard of a logical database).
type Source interface {
	// Name is the shard's name; "" for a source without shards.
	Name() string

	// Latest is the present end of the log; Oldest the first place that can still be read. Their Orders are those of a
	// stream that went through the known positions: where the newest of these were made on another server, they go on
	// above.
	Latest(ctx context.Context, known []Position) (Position, error)
	Oldest(ctx context.Context, known []Position) (Position, error)

	// Open returns a reader that starts at the earliest of the given positions, in the newest one's Orders. It proves that
	// the log is the one that they were read from, and that it has all that was read when they were made. On another
	// server that has, it goes on with Orders above every earlier one; Start then differs from what was given and must be
	// saved before anything read is applied. A position that can't be read on from is an error that wraps ErrLost; another
	// server without proof is a Fatal error. Only the named tables are read, all if none is named: what happens to another
	// one is no error then.
	Open(ctx context.Context, at []Position, tables ...string) (Reader, error)

	// Includes reports whether p is known to include all that q does, also where they were made on two servers.
	Includes(p, q Position) bool

	// Identities says what one cell and one version of each table are, as the source has the table now: equal texts mean
	// that cells and versions are the same. The first byte stands for what the versions are, the rest for the cells; what
	// follows NamesGiven, if anything, only for a view of all columns. A table that can't be read is left out: whoever
	// opens it learns why.
	Identities(ctx context.Context, tables []string) (map[string]string, error)

	// SameKeys fails with ErrOtherKeys where one key of one of the tables is not the same key of another one: a number and
	// a text, say, or texts that one column takes for one and the other tells apart. The error names both columns.
	SameKeys(ctx context.Context, tables []string) error
}

// Changelog is a Source whose log tells, from its beginning on, what every cell is: each change of a cell after the
// other, or at least its newest row. A fill reads the log from there, in its order, while nothing is scanned: to bring
// an older change after a newer one, as a scan beside the tail would, is only harmless where a deleted row can't come
// again.
type Changelog interface {
	Source

	// Lacks returns those of the cells of which the log, as it is now, tells neither the version at their place nor a
	// higher one. That a cell is gone it need not tell for ever. And of a log that was lost and written anew it tells
	// what is left since then: a version that was deleted meanwhile it never knew. It fails as long as the log itself
	// is being filled, if there are such cells.
	Lacks(ctx context.Context, cells []Cell, versions []int64) ([]Cell, error)

	// Holds reports whether this is the log that tells of the cell, if any does: other logs of the same origin tell of
	// other cells. It knows from when the beginning was read.
	Holds(c Cell) bool

	// Remembers reports whether the log still tells of every cell that it said was gone since a time. A reader that began
	// then, and has read to the end, has missed no such cell.
	Remembers(ctx context.Context, since time.Time) (bool, error)
}

// Reader reads one source for one pipeline. Its Orders are those of its Start. Read is called once, from one goroutine;
// the other methods may be called from others at the same time.
type Reader interface {
	// Start is where reading begins.
	Start() Position

	// Read delivers everything after Start to h, in order, until ctx is done or it fails. A transaction that is cut short
	// is delivered again by the next Reader, with the same Orders.
	Read(ctx context.Context, h Handler) error

	// Position returns the latest transaction end at or before order, for an order that Handler.Commit was given. Orders
	// must not fall from call to call: what lies before is forgotten. Asked again for the same order it knows more: how
	// far was read.
	Position(order int64) Position

	// File is the number of the latest file of the source's log whose rows were handed out, by Read or by what reads
	// tables; it never falls. A Position that is asked for after that names the file. What is saved of it shows later
	// whether the log is still the same. 0: the log has no files that could be others.
	File() int64

	// Locate shows an order to a person: FILE:POS.
	Locate(order int64) string

	// Latest is the present end of the source's log, in this reader's Orders.
	Latest(ctx context.Context) (Position, error)

	// Newest reads the newest row that each of the first cells has now, in their order; nil where none is left, or where
	// it spells the key in another way (see Spellings). There are as many as come to a number of bytes, at least one; all
	// if that is 0. Everything up to asOf is included (a fenced read); what was committed later may be.
	Newest(ctx context.Context, cells []Cell, bytes int64) (rows []*Row, asOf int64, err error)

	// Scan reads the next rows of a table in the order of its offset, after the place that an earlier chunk's Next names
	// ("": from the start). Only cells of the given column values, all if columns is empty. From the start it may choose
	// another order, and leave out rows that are not the newest of their cells.
	Scan(ctx context.Context, table string, columns []string, after string, limit ScanLimit) (Chunk, error)

	// Includes reports whether all that the fence names (a GTID set, or FILE:POS) was committed at or before p.
	Includes(ctx context.Context, p Position, fence string) (bool, error)

	// Cells returns the next cells that a table has rows of, in the order of their keys, after the place that an earlier
	// call returned as next ("" at first); an empty next is the end. Only cells of the given column values, all if columns
	// is empty.
	Cells(ctx context.Context, table string, columns []string, after string,
		limit int) (cells []Cell, next string, err error)

	// Siblings returns the cells, of whatever column and spelling of the key, that a table has rows of with the given
	// keys.
	Siblings(ctx context.Context, table string, keys []Key) ([]Cell, error)

	// Referring returns the next cells, in the order of their keys, of the rows that References of one Lookup are about, and
	// perhaps of some more, after the place that an earlier call returned as next ("" at first); an empty next is the end. All that
	// was handed out before is seen.
	Referring(ctx context.Context, refs []Reference, after string, limit int) (cells []Cell, next string, err error)

	// MixesSpellings reports whether a table has several rows per cell, and takes different keys for one.
	MixesSpellings(table string) bool

	// Spellings looks for keys of which the source has rows that are spelt in another way. For each it returns the cells,
	// of whatever column and spelling. All that was handed out before is seen.
	Spellings(ctx context.Context, table string, keys []Key) ([][]Cell, error)

	// Estimate is about how many rows a table has.
	Estimate(ctx context.Context, table string) (int64, error)

	// Close frees what the reader holds. Read has returned before.
	Close() error
}

// ScanLimit bounds a chunk: it ends at the first bound reached, but passes at least one row.
type ScanLimit struct {
	Rows  int   // that are passed
	Bytes int64 // of the rows that are returned
}

// Chunk is a piece of a scan. Every row in it was read after Low and before High was taken: it holds all of Low and may
// hold some of what follows, up to High. The rows' Order is Low, and so is their Version where the position is the
// version.
type Chunk struct {
	Rows   []*Row
	Passed int // rows of the table that the scan has come past, with those that it left out
	// Total is about how many rows the whole scan comes past, where it does not come past those that it leaves out: the
	// source was asked for some columns' only. 0: all rows of the table, or not known.
	Total     int64
	Low, High int64
	Next      string // where the next chunk goes on; opaque
	Done      bool   // nothing is left
}

// Handler takes what a Reader reads. Its methods are called from one goroutine.
type Handler interface {
	// Change may block: that is how a slow sink slows down its reader. An error ends Read. The Change is the reader's
	// again once it returns; its Row is the handler's.
	Change(ctx context.Context, c *Change) error

	// Refer is told that a row changed which other rows carry (Table.Lookups), after the row's own Change: once for what it
	// was and once for what it is, where these differ. It may block, and an error ends Read.
	Refer(ctx context.Context, ref *Reference) error

	// Commit says that all up to order has been delivered and that this is a transaction boundary; at is when it was
	// committed (zero if unknown). It is called as soon as the source has begun to send its log, for transactions without
	// a watched row, and when the source is idle, too.
	Commit(order int64, at time.Time)

	// Unlogged is told that rows of a table changed up to an order and that the log does not say which (ErrUnlogged): a
	// TRUNCATE, a statement logged as text, another table that was renamed into the watched one's place, rows that can't be
	// read or don't tell their cell. To return err ends reading. With nil reading goes on, with the rows of the table that
	// has the name from then on.
	Unlogged(table string, order int64, err error) error
}
