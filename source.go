package replicator

import (
	"context"
	"time"
)

// Source is one server whose changes are replicated. A logical database may have several such servers, as shards.
type Source interface {
	// Name is the shard's name; "" for a source without shards.
	Name() string

	// Latest returns the current end of the log, and Oldest the first position that can still be read. known are
	// positions that were read before. If the newest known position was made on another server, the Orders of the
	// results are above that position's.
	Latest(ctx context.Context, known []Position) (Position, error)
	Oldest(ctx context.Context, known []Position) (Position, error)

	// Open returns a reader that starts at the earliest of the given positions, in the epoch of the newest. It proves
	// that they are positions of this log, and that the log has everything that had been read when they were made. If
	// the log lacks something, the error wraps ErrLost. If another server can't prove it, the error is Fatal.
	//
	// If the source is now another server that has everything, reading continues there, with Orders above every earlier
	// one. Reader.Start then differs from the given positions, and must be saved before anything read is applied.
	//
	// The reader reads only the named tables (all, if none is named). Events of other tables cause no errors.
	Open(ctx context.Context, at []Position, tables ...string) (Reader, error)

	// Includes reports whether p certainly includes everything that q includes, even if two servers made them.
	Includes(p, q Position) bool

	// Identities describes, for each table, what a cell and a version are at the source now: equal texts mean equal
	// definitions. The first byte of a text says what kind of number versions are: log positions, or the version
	// column's numbers or times. The parts after NamesGiven concern only some views. Tables that can't be read are left
	// out.
	Identities(ctx context.Context, tables []string) (map[string]string, error)

	// SameKeys fails with ErrOtherKeys if the tables' keys can't be compared: a key column is a number in one table and
	// a text in another, or two tables disagree about which texts are equal. The error names both columns.
	SameKeys(ctx context.Context, tables []string) error
}

// Changelog is a Source whose log contains every cell, if it is read from its beginning: each change in order, or at
// least the newest row. So a fill reads the log, and scans nothing. A scan beside the reading would deliver older
// changes after newer ones.
type Changelog interface {
	Source

	// Lacks returns the cells for which the current log has neither the given version nor a higher one. Their rows may
	// have been deleted: a compacted log drops old deletes, and a log that was lost and filled again lacks all earlier
	// ones. While the log is being filled, Lacks fails instead of returning cells, because their rows may still come.
	Lacks(ctx context.Context, cells []Cell, versions []int64) ([]Cell, error)

	// Holds reports whether the cell belongs in this log. Other logs of the same origin hold other cells. Holds knows
	// the answer only after the beginning of the log was read.
	Holds(c Cell) bool

	// Remembers reports whether the log still has every delete that was written since the given time. If so, a reader
	// that began to read at that time, and has reached the log's end, missed no delete.
	Remembers(ctx context.Context, since time.Time) (bool, error)
}

// Reader reads one source for one pipeline. Its Orders continue those of its Start. Read is called once, from one
// goroutine. Other goroutines may call the other methods at the same time.
type Reader interface {
	// Start is where reading begins.
	Start() Position

	// Read delivers everything after Start to h, in order, until ctx is done or it fails. The next Reader delivers an
	// interrupted transaction again, with the same Orders.
	Read(ctx context.Context, h Handler) error

	// Position returns the latest position between two transactions that is not after the given order. The order is
	// that of Start or of a Handler.Commit call, and must not fall from call to call, because the reader forgets
	// earlier positions. The position's Token may also say how far the log has been read beyond the position.
	Position(order int64) Position

	// File is the number of the latest log file that the reader has reached, by reading the log or tables. It never
	// falls. Positions that Position returns afterwards name that file. If the source is restored from a backup, and
	// writes another file with that number, the next start notices. 0: the log has no files.
	File() int64

	// Locate formats an Order for people, as FILE:POS.
	Locate(order int64) string

	// Latest is the current end of the source's log, in this reader's Orders.
	Latest(ctx context.Context) (Position, error)

	// Newest reads the newest rows of cells, in the order of cells. A row is nil if the cell has none, or only under
	// another variant of the key (see Spellings). It may stop early: bytes limits the size of the rows (0: no limit),
	// but at least one is returned. The rows include every change up to asOf, and may include later ones.
	Newest(ctx context.Context, cells []Cell, bytes int64) (rows []*Row, asOf int64, err error)

	// Scan reads the next rows of a table, in any order that stays the same throughout the scan. after is the Next of
	// the previous chunk ("" at the start). Scan reads only cells whose Cell.Column is one of columns, or all cells if
	// columns is empty. It may leave out rows that are not the newest of their cells.
	Scan(ctx context.Context, table string, columns []string, after string, limit ScanLimit) (Chunk, error)

	// Includes reports whether p includes every transaction that fence names: a GTID set, or FILE:POS.
	Includes(ctx context.Context, p Position, fence string) (bool, error)

	// Cells lists the cells of which a table has rows, in the order of their keys, a page at a time (see
	// Target.Outdated). Cells lists only cells whose Cell.Column is one of columns, or all cells if columns is empty.
	Cells(ctx context.Context, table string, columns []string, after string,
		limit int) (cells []Cell, next string, err error)

	// Siblings returns all cells of the table's rows with the given keys, for every value of the column role and every
	// variant of a key (see Spellings).
	Siblings(ctx context.Context, table string, keys []Key) ([]Cell, error)

	// Referring returns the cells whose rows join one of the changed rows, in the order of the cells' keys, a page at a
	// time (see Target.Outdated). refs identify the changed rows, and all have the same Lookup. Referring reads the
	// source as it is after all that the Handler has received. It may also return other cells, which are then re-read
	// needlessly.
	Referring(ctx context.Context, refs []Reference, after string, limit int) (cells []Cell, next string, err error)

	// MixesSpellings reports whether a cell of the table may have several rows, with different variants of its key (see
	// Spellings).
	MixesSpellings(table string) bool

	// Spellings finds those of the given keys that the source also stores under a different variant, such as "ABC" for
	// "abc", which the source treats as equal. For each key that it finds, it returns the cells of the key and of its
	// other variants, for every value of the column role. It sees every row that was delivered before.
	Spellings(ctx context.Context, table string, keys []Key) ([][]Cell, error)

	// Estimate is the approximate number of rows of a table.
	Estimate(ctx context.Context, table string) (int64, error)

	// Close frees the reader's resources. The caller ensures that Read has returned.
	Close() error
}

// ScanLimit limits a chunk, which ends at the first limit that it reaches.
type ScanLimit struct {
	Rows  int
	Bytes int64 // the maximum size of the returned rows; the last row may exceed it
}

// Chunk is one step of a scan. The log positions Low and High were taken before and after its rows were read. So the
// rows include every change up to Low, and may include changes up to High. The rows' Order is Low; so is their Version
// if log positions are the versions.
type Chunk struct {
	Rows   []*Row
	Passed int // the number of rows that the step passed: those returned and those left out
	// Total is the approximate number of rows that the whole scan will pass. 0: Reader.Estimate has the best number.
	Total     int64
	Low, High int64
	Next      string // where the next chunk continues; opaque
	Done      bool   // the scan has reached the end of the table
}

// Handler receives what a Reader reads. One goroutine calls its methods.
type Handler interface {
	// Change receives one change. It may block, so that a slow sink slows down the reader. An error ends Read. The reader
	// may reuse the Change after the call; the handler owns its Row.
	Change(ctx context.Context, c *Change) error

	// Refer reports a change of a row that views join to other rows (Table.Lookups), after the changed row's own
	// Change. It is called once for the row's old values, and once for its new values if they differ. It may block, and
	// an error ends Read.
	Refer(ctx context.Context, ref *Reference) error

	// Commit says that a transaction ends at order, and that everything up to there was delivered. at is the commit time
	// (zero: unknown). Commit is also called when the source begins to send its log, after transactions without a watched
	// row, and while the source is idle.
	Commit(order int64, at time.Time)

	// Unlogged reports that rows of a table changed up to order, and that the log does not say which: after a TRUNCATE,
	// for example (see ErrUnlogged). err describes the change. If Unlogged returns an error, reading ends. If it
	// returns nil, reading continues. If another table was renamed to the name, that table is then read.
	Unlogged(table string, order int64, err error) error
}
