package replicator

import "time"

// Table is a source table with its role columns, as the configuration names them.
type Table struct {
	Name     string   // the name in the configuration, which views and cells use
	Database string   // the source's database
	Table    string   // the table's name in that database
	Pattern  bool     // it covers all tables that match Database and Table: * stands for any text, ? for a character
	Shared   bool     // Pattern: the key does not tell the tables apart, so a cell may have rows in several
	Key      []string // the entity's key columns
	Column   string   // the column that says which sort of cell a row is; "": the table has none
	Version  string   // the column whose highest value is the newest row of a cell; "": the row's Order is its version
	Offset   []string // monotonic columns that a scan follows; empty: the primary key
	Body     string   // the body column; "": the row's own columns are its fields
	Codec    string   // how the body is encoded; "" without a body

	// Values are the values of Column that views name. The source may treat other values as equal to them, such as
	// "Users" and "users".
	Values []string

	// Columns are the further columns that a Row must carry: those that views name with $, and the fields of a table
	// without a body. The one element "*" asks for every column (tail).
	Columns []string

	// Optional are the further columns that a Row carries if the table has them. Views that merge this table with
	// others name them, and another of those tables may have the column instead.
	Optional []string

	// Readers maps a column to the views that use it. If the table lacks one of Columns, only its views can't be read.
	// A column without an entry concerns the whole table. For one of Optional, it lists the views that take it if it
	// exists.
	Readers map[string][]string

	// Lookups are the rows of other tables that a Row carries if it is read from the table. They come from the views'
	// joins. Each one follows the lookups that it starts from.
	Lookups []Lookup

	// Joiners are, by the ID of each of Lookups, the views with that join.
	Joiners map[string][]string
}

// Row is one row image, or one row read by a scan. It owns its memory.
type Row struct {
	Cell    Cell
	Version int64     // ≥ 0
	Order   int64     // the log position of the row's image; see Position
	Place   int64     // its position in the log that it was read from; 0: that is the source's own log, so Order says it
	Time    time.Time // when it was committed at the source (binlog), or read (scan)

	// Body is the body column as stored, or nil if it is NULL or the table has none. If Text is set, the body is in the
	// server's binary form of JSON, and Text renders it. The lane does that after coalescing, not the reader.
	Body []byte
	Text func([]byte) ([]byte, error)

	// Err says what is wrong with the row itself, such as a version that doesn't fit. Every view that the row feeds
	// gets a dead letter.
	Err error

	// ColumnAs is the row's own form of the column role's value, or "" if that is Cell.Column. The source treats the
	// two as equal.
	ColumnAs string

	// Names and Columns are the further columns and their values: nil, bool, int64, uint64 (only above the largest int64),
	// float64, Number, string (also dates and times, in the server's text form), []byte, RawJSON. Names is shared by all
	// rows.
	Names   []string
	Columns []any

	// Joined are the rows that the table's Lookups found, by lookup ID: the newest rows of their cells when this row
	// was read. It is nil for a row from the log, which doesn't contain them.
	Joined map[string][]*Row
}

// Size is how many bytes of a pipeline's memory budget the row uses.
func (r *Row) Size() int64 {
	n := int64(len(r.Body)) + int64(len(r.Cell.Key)) + RowOverhead
	for _, v := range r.Columns {
		switch v := v.(type) {
		case string:
			n += int64(len(v))
		case []byte:
			n += int64(len(v))
		case RawJSON:
			n += int64(len(v))
		}
		n += 16
	}
	for _, rows := range r.Joined {
		for _, row := range rows {
			n += row.Size()
		}
	}
	return n
}

// RowOverhead estimates, in bytes, what a pending change costs besides its own bytes: the Row, the map entry, slice
// headers, and the sink's copies in flight. It was measured as the total memory of a catch-up.
const RowOverhead = 1200

// ChangeKind says what happened to a row.
type ChangeKind uint8

const (
	Insert ChangeKind = iota + 1
	Update
	Delete
)

func (k ChangeKind) String() string {
	switch k {
	case Insert:
		return "insert"
	case Update:
		return "update"
	case Delete:
		return "delete"
	}
	return "unknown"
}

// Change is one change of one cell, in the order of the source. The Reader delivers an UPDATE that moves a row to
// another cell, or lowers its version, as a Delete and an Insert.
type Change struct {
	Kind    ChangeKind
	Cell    Cell
	Version int64 // of the row that was inserted, updated or deleted, or AnyVersion
	Order   int64
	Time    time.Time // when it was committed at the source
	Row     *Row      // the row as it is now; nil for a Delete, and for AnyVersion

	// Last is true for a Delete in a table with one row per cell. No other row remains, so none must be looked up.
	Last bool

	// AsOf is set if the change is another replicator's re-read of the cell (see Op). Row is then the newest row as of
	// this log position, nil if there was none. Version is that row's version or NoVersion. 0: the change is no
	// re-read.
	AsOf int64

	// Rewrite: see Op.
	Rewrite bool
}
