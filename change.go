package replicator

import "time"

// Table is a source table. The configuration gives some of its columns a role: key, column, version, offset or body.
type Table struct {
	Name     string // the name in the configuration, which views and cells use
	Database string
	Table    string // the table's name in the source's database
	Pattern  bool   // Database and Table are patterns: * is any text, ? one character
	Shared   bool   // a pattern whose key does not name the table, so one cell may have rows in several tables
	Key      []string
	Column   string   // the column with the column role, which divides a key's rows into cells; "": none
	Version  string   // the column whose highest value marks a cell's newest row; "": the highest Order marks it
	Offset   []string // the columns in whose order a scan pages through the table; empty: the primary key
	Body     string   // the body column; "": there is none, and a row's own columns are its fields
	Codec    string   // how the body is encoded; "" without a body

	// Values are the values of Column that views list in their `from` setting. The source may treat other texts as
	// equal, such as "Users" and "users".
	Values []string

	// Columns are further columns that a Row must carry: the columns that views name with $, and the fields of a table
	// without a body. The single element "*" asks for every column, as the tail command does.
	Columns []string

	// Optional are further columns that a Row carries if the table has them. They come from views that merge several
	// tables: such a view may use a column that only some of its tables have.
	Optional []string

	// Readers maps a column to the views that use it. If a column of Columns is missing from the table, only these
	// views fail. If the column has no entry here, all views of the table fail.
	Readers map[string][]string

	// Lookups describe the rows of other tables that the views' joins need. A Row that is read from the table carries
	// the rows that the Lookups found; a Row from the log does not. A Lookup may start from the rows that an earlier
	// Lookup found.
	Lookups []Lookup

	// Joiners maps a Lookup's ID to the names of the views whose joins need the Lookup.
	Joiners map[string][]string
}

// Row is one row, taken from the log or read from its table. Its memory is never reused.
type Row struct {
	Cell    Cell
	Version int64     // never negative
	Order   int64     // the row's log position as a number; see Position
	Place   int64     // position of the row in the Changelog that it was read from; 0: it was not read from a Changelog
	Time    time.Time // time of the commit (from the log), or of the read (from a table)

	// Body is the body column as stored; nil if it is NULL or the table has none. If Text is set, Body is the server's
	// binary JSON, and Text converts it to JSON text. The writer calls Text, not the reader, because most changes are
	// replaced by newer ones before they are written.
	Body []byte
	Text func([]byte) ([]byte, error)

	// Err says what is wrong with the row itself, such as a version that doesn't fit. Every view that the row feeds
	// gets a dead letter.
	Err error

	// ColumnAs is the row's value of the column role, if it differs from Cell.Column; otherwise "". The source treats the
	// two values as equal.
	ColumnAs string

	// Names and Columns are the names and values of the further columns (Table.Columns and Optional). Values are nil,
	// bool, int64, uint64 (only above the largest int64), float64, Number, string (also dates and times, in the server's
	// text form), []byte or RawJSON. All rows share Names.
	Names   []string
	Columns []any

	// Joined are the rows that the table's Lookups found, by lookup ID: the newest rows of their cells when this row
	// was read. It is nil for a row from the log, because the log does not contain them.
	Joined map[string][]*Row
}

// Size returns how many bytes of a pipeline's memory budget the row uses.
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
// headers, and the sink's copies in flight. It was measured as the total memory while a view caught up.
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

// Change is one change of one cell. Changes arrive in the order of the log. An UPDATE that moves a row to another cell,
// or lowers its version, arrives as a Delete and an Insert.
type Change struct {
	Kind    ChangeKind
	Cell    Cell
	Version int64 // the version of the row that was inserted, updated or deleted, or AnyVersion
	Order   int64
	Time    time.Time // when the change was committed at the source
	Row     *Row      // the row after the change; nil for a Delete, and with AnyVersion

	// Last marks a Delete in a table with one row per cell. No row remains, so the cell need not be read again.
	Last bool

	// AsOf is set only in changes from a Changelog, if the publisher that wrote the Changelog re-read the cell. Row is
	// then the cell's newest row at the log position AsOf (nil: it had none), and Version is that row's version or
	// NoVersion. 0: the change is not a re-read.
	AsOf int64

	// Rewrite: the row is written even if the sink should hold it already, to repair a sink that was changed by hand.
	Rewrite bool
}
