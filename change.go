package replicator

import "time"

// Table is a source table with its role columns, as the configuration names them.
type Table struct {
	Name     string   // the name in the configuration, which views and cells use
	Database string   // the source's database
	Table    string   // the table's name in that database
	Pattern  bool     // all tables that match Database and Table are this one: * stands for any text, ? for a character
	Shared   bool     // Pattern: the key does not tell the tables apart, so a cell may have rows in several
	Key      []string // the entity's key columns
	Column   string   // the column that says which sort of cell a row is; "": the table has none
	Version  string   // the column whose highest value is the newest row of a cell; "": the row's Order is its version
	Offset   []string // monotonic columns that a scan follows; empty: the primary key
	Body     string   // the body column; "": the row's own columns are its fields
	Codec    string   // how the body is encoded; "" without a body

	// Values are the values of Column that views name. The source may take others for the same, in another spelling.
	Values []string

	// Columns are the further columns that a Row must carry: those that views name with $, and the fields of a table
	// without a body. The one element "*" asks for every column (tail).
	Columns []string

	// Optional are the further columns that a Row carries if the table has them: those of views that merge this table
	// with others, which may be the ones to have them.
	Optional []string

	// Readers are, by each of Columns, the views that need it: where the table lacks it, it is they that can't be read;
	// and by each of Optional those that take it where it is there. A column without is the whole table's.
	Readers map[string][]string

	// Lookups are the rows of other tables that a Row carries where it is read from the table: of the views' joins, each
	// behind those that it begins at.
	Lookups []Lookup
}

// Row is one row image, or one row read by a scan. It owns its memory.
type Row struct {
	Cell    Cell
	Version int64     // ≥ 0
	Order   int64     // where the row's image stands in the source's order; see Position
	Place   int64     // where it stands in the log that it was read from; 0: that is the source's own, and Order says it
	Time    time.Time // when it was committed at the source (binlog), or read (scan)

	// Body is the body column as stored; nil if it is NULL or the table has none. Where Text is set the body is in the
	// server's own binary form of JSON and Text renders it: in the lane, after coalescing, not in the reader.
	Body []byte
	Text func([]byte) ([]byte, error)

	// Err is what is wrong with the row itself (a version that doesn't fit, say): it becomes a dead letter of every view
	// it feeds.
	Err error

	// ColumnAs is the value of the column role as the row spells it; "" where that is Cell.Column. The source takes both
	// for one.
	ColumnAs string

	// Names and Columns are the further columns and their values: nil, bool, int64, uint64 (only above the largest int64),
	// float64, Number, string (also dates and times, in the server's text form), []byte, RawJSON. Names is shared by all
	// rows.
	Names   []string
	Columns []any

	// Joined are the rows that the table's Lookups found, by their IDs: the newest rows of their cells, as of when this one
	// was read. nil for a row from the log, which doesn't tell them.
	Joined map[string][]*Row
}

// Size is what a row costs of a pipeline's memory budget, in bytes.
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

// RowOverhead is about what a pending change costs besides its bytes, in bytes: the Row, the map's entry, the slices'
// headers, and what the sink makes of it while it is in flight (measured by what a catch-up takes in all).
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

// Change is one change of one cell, in the order of the source. An UPDATE that moves a row to another cell, or lowers
// its version, is delivered as a Delete and an Insert: a Reader sees to it.
type Change struct {
	Kind    ChangeKind
	Cell    Cell
	Version int64 // of the row that was inserted, updated or deleted, or AnyVersion
	Order   int64
	Time    time.Time // when it was committed at the source
	Row     *Row      // the row as it now is; nil for a Delete, and for AnyVersion

	// Last is true for a Delete in a table that holds one row per cell: nothing remains, so nothing need be looked up.
	Last bool

	// AsOf: the change is a look that somebody else made at the cell (see Op): Row is the newest row that it had as of
	// this place of the source's order, nil if it had none, and Version is that row's, or NoVersion. 0: it is no look.
	AsOf int64

	// Rewrite: see Op.
	Rewrite bool
}
