package survey

import (
	"slices"
	"strings"
)

// Database is what was seen of a source.
type Database struct {
	DSN    DSN
	Server string // HOST:PORT
	Name   string
	Tables []Table // base tables, by name

	Beyond int // how many of the tables were not looked at, for there are too many

	// Targets are the servers that views are to be kept in, at most one of each type; none: the source's own database.
	Targets []Target

	// Kept are the tables that the program keeps views in already, by name, each with its view's name.
	Kept map[string]string

	estimates map[string]int64 // how many rows the server takes its tables to hold, where it was asked
}

// Looked is how many tables were looked at.
func (d *Database) Looked() (n int) {
	for i := range d.Tables {
		if !d.Tables[i].Skipped {
			n++
		}
	}
	return n
}

// Table is a base table and a sample of it.
type Table struct {
	Name    string
	Columns []Column   // in the table's order
	Primary []string   // "" if there is no primary key
	Unique  [][]string // unique keys whose columns can't be NULL, the primary key first
	Foreign []ForeignKey

	firstIndex string     // the name of the first of Unique
	indexed    [][]string // what indexes that tell no rows apart begin with

	// Rows is how many rows were sampled. Values are a column's values in them, in the rows' order, nil for NULL; only of
	// columns whose contents say something of their role, or that were asked for. TooLong is how many bodies of a column
	// were too long to be looked at, which are nil.
	Rows    int
	Values  map[string][][]byte
	TooLong map[string]int

	Skipped bool   // it was not asked for, and so not sampled
	Problem string // why the table could not be looked at; "" if it could
}

// Column is a column as information_schema has it.
type Column struct {
	Name      string
	DataType  string // in lower case: int, varchar, …
	Type      string // int unsigned, varchar(64), …
	Length    int64  // in characters, or in bytes; 0 if it has none
	Text      bool   // it has a character set
	Nullable  bool
	Auto      bool // AUTO_INCREMENT
	Generated bool
}

func (t *Table) col(name string) *Column {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return &t.Columns[i]
		}
	}
	return nil
}

// has reports whether a list has a name; MySQL's names of columns don't tell upper from lower case.
func has(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

func (c *Column) integer() bool {
	return slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint"}, c.DataType)
}

func (c *Column) temporal() bool {
	return slices.Contains([]string{"datetime", "timestamp", "date"}, c.DataType)
}

// orders reports whether the column's type can be a version's.
func (c *Column) orders() bool {
	return (c.integer() || c.temporal() && c.DataType != "date") && !c.Generated
}

// identifies reports whether the column's type can be a key's.
func (c *Column) identifies() bool {
	return c.DataType == "varchar" || c.DataType == "varbinary" ||
		!slices.Contains([]string{"float", "double", "bit", "geometry", "point"}, c.DataType) && !c.holdsBody()
}

// shortBody is the length from which on a text or binary column of limited length may hold a body.
const shortBody = 512

// holdsBody reports whether the column's type suggests a body.
func (c *Column) holdsBody() bool {
	switch c.DataType {
	case "json", "tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext":
		return true
	case "varchar", "varbinary":
		return c.Length >= shortBody
	}
	return false
}

// shortText reports whether the column holds names, as those of sorts of cells.
func (c *Column) shortText() bool {
	return c.DataType == "enum" || (c.DataType == "varchar" || c.DataType == "char") && c.Text && c.Length < shortBody
}

// tells reports whether the column's values say what the table is: of which entities, and of which sorts, its rows are.
func (c *Column) tells() bool {
	name := strings.ToLower(c.Name)
	if slices.Contains(attributeNames, name) || slices.Contains(entityNames, name) {
		return c.shortText() || c.integer()
	}
	return slices.Contains(sortNames, name) && c.shortText()
}

// bytes is the most that a value takes in an index of a table in utf8mb4.
func (c *Column) bytes() int64 {
	switch {
	case c.Text:
		return 4 * c.Length
	case c.Length > 0:
		return c.Length
	}
	return 16 // numbers and times take less, MariaDB's UUID just that
}
