package survey

import (
	"slices"
	"strings"
)

// Database describes a source as it was read.
type Database struct {
	DSN    DSN
	Server string // HOST:PORT
	Name   string
	Tables []Table // base tables, sorted by name

	Beyond int // the number of tables that were not sampled because there are too many

	// Targets lists the servers for the views, at most one of each type. If it is empty, views are kept in the source's
	// own database.
	Targets []Target

	// Kept maps the tables that already hold views to the names of these views.
	Kept map[string]string

	estimates map[string]int64 // the server's estimates of row counts, by table; nil if the server was not asked
}

// Looked returns how many tables were sampled.
func (d *Database) Looked() (n int) {
	for i := range d.Tables {
		if !d.Tables[i].Skipped {
			n++
		}
	}
	return n
}

// Table is a base table with a sample of its rows.
type Table struct {
	Name    string
	Columns []Column
	Primary []string   // the primary key's columns; nil if there is no primary key
	Unique  [][]string // unique keys whose columns can't be NULL, the primary key first
	Foreign []ForeignKey

	firstIndex string   // the name of the index Unique[0]
	indexed    []string // the first column of each index that is not unique

	// Rows is the number of sampled rows. Values holds a column's values in the order of the rows, nil for NULL. It has
	// only columns whose content helps to find their role, or that were requested. TooLong counts a column's bodies
	// that were too long to read; their values are nil.
	Rows    int
	Values  map[string][][]byte
	TooLong map[string]int

	Skipped bool   // the table was not chosen for sampling: it was not requested, for example, or there are too many
	Problem string // why the table could not be read; "" if it was read
}

// Column describes a column as information_schema does.
type Column struct {
	Name      string
	DataType  string // the type's name in lower case: int, varchar, …
	Type      string // the full type: int unsigned, varchar(64), …
	Length    int64  // the maximum length in characters or bytes; 0 if the type has none
	Text      bool   // the column has a character set
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

// has reports whether a list contains a name. It ignores case, as MySQL does for column names.
func has(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

func (c *Column) integer() bool {
	return slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint"}, c.DataType)
}

func (c *Column) temporal() bool {
	return slices.Contains([]string{"datetime", "timestamp", "date"}, c.DataType)
}

// orders reports whether the column's type is suitable for a version.
func (c *Column) orders() bool {
	return (c.integer() || c.temporal() && c.DataType != "date") && !c.Generated
}

// identifies reports whether the column's type is suitable for a key.
func (c *Column) identifies() bool {
	return c.DataType == "varchar" || c.DataType == "varbinary" ||
		!slices.Contains([]string{"float", "double", "bit", "geometry", "point"}, c.DataType) && !c.holdsBody()
}

// A VARCHAR or VARBINARY column may hold bodies if its declared length is at least shortBody.
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

// shortText reports whether the column holds short names, such as the kind of a row.
func (c *Column) shortText() bool {
	return c.DataType == "enum" || (c.DataType == "varchar" || c.DataType == "char") && c.Text && c.Length < shortBody
}

// tells reports whether the column's sampled values help to recognize a log or a table of attributes.
func (c *Column) tells() bool {
	name := strings.ToLower(c.Name)
	if slices.Contains(attributeNames, name) || slices.Contains(entityNames, name) {
		return c.shortText() || c.integer()
	}
	return slices.Contains(kindNames, name) && c.shortText()
}

// bytes returns the largest size of a value in an index of a utf8mb4 table.
func (c *Column) bytes() int64 {
	switch {
	case c.Text:
		return 4 * c.Length
	case c.Length > 0:
		return c.Length
	}
	return 16 // numbers and times need less than 16 bytes; MariaDB's UUID needs exactly 16
}
