package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/sqlname"
)

// declaredColumn is a column as information_schema now describes it.
type declaredColumn struct {
	binlog.Declared
	dataType  string // int, varchar, …
	fullType  string // int(10) unsigned, …
	collation string // "" if the column is not text
	nullable  bool
	generated bool
	literal   string // the SQL constant to select for a pattern's $database or $table; "": a column of the table
}

// schema is a watched table as information_schema now describes it.
type schema struct {
	columns []declaredColumn
	primary []string
	unique  [][]string // the columns of every unique key, the primary key first
	indexed [][]string // the columns of every index, in the order of the index
	ordered []index    // the indexes that sort whole values (index.ordered)
	mixed   bool       // a cell may have several rows, whose keys the server treats as equal: "a" and "A"
	rowEnd  string     // the column with the end of a row's validity, if the table is system-versioned (versioning.go)
	charset string     // the default character set for added text columns; "" if the table has none

	constants []constant // for a pattern's table: $database and $table
}

type index struct {
	name        string
	columns     []string
	unique      bool
	columnsOnly bool // no part is an expression
	ordered     bool // the index sorts whole values: it is not a hash index, and not on prefixes of the values
}

func (s *schema) column(name string) *declaredColumn {
	if i := s.constant(name); i >= 0 {
		return &s.constants[i].declaredColumn
	}
	for i := range s.columns {
		if strings.EqualFold(s.columns[i].Name, name) {
			return &s.columns[i]
		}
	}
	return nil
}

// single reports whether a table has at most one row per cell: some unique key has only columns that are part of the
// cell.
func (s *schema) single(t *replicator.Table) bool {
	if t.Shared && t.Version != "" { // a cell may have a row in each of the pattern's tables
		return false
	}
	for _, key := range s.unique {
		if !slices.ContainsFunc(key, func(name string) bool {
			if strings.EqualFold(name, t.Column) {
				c := s.column(name)
				return c == nil || c.nullable // a unique key allows several NULLs
			}
			return !containsFold(t.Key, name)
		}) {
			return true
		}
	}
	return false
}

// countable fails if a cell may have several rows and no column says which of them is the newest. The binlog and a scan
// would then disagree.
func (s *schema) countable(t *replicator.Table) error {
	if t.Version != "" || s.single(t) {
		return nil
	}
	cell := slices.Clone(t.Key)
	alter := "ALTER TABLE " + sqlname.Quote(t.Database) + "." + sqlname.Quote(t.Table) + " "
	if t.Column != "" {
		cell = append(cell, t.Column)
		if c := s.column(t.Column); c != nil && c.nullable { // NOT NULL, because a unique key allows several NULLs
			alter += "MODIFY " + sqlname.Quote(c.Name) + " " + c.fullType
			if c.collation != "" {
				alter += " COLLATE " + c.collation
			}
			alter += " NOT NULL, "
		}
	}
	quoted := make([]string, len(cell))
	for i, name := range cell {
		quoted[i] = sqlname.Quote(name)
	}
	return fmt.Errorf("table %[1]s: several rows may have the same %[2]s, and no version column says which row is the "+
		"newest. An append-only log must name its increasing column, with version = \"COLUMN\" in [tables.%[1]s]. If "+
		"no two rows have the same %[2]s, add a unique key: %[3]sADD UNIQUE KEY (%[4]s)", t.Name,
		strings.Join(cell, ", "), alter, strings.Join(quoted, ", "))
}

// tellsApart reports whether no two rows can have the same values in these columns.
func (s *schema) tellsApart(columns []string) bool {
	return slices.ContainsFunc(s.unique, func(key []string) bool {
		return subset(key, columns) && !slices.ContainsFunc(key,
			func(name string) bool { c := s.column(name); return c == nil || c.nullable })
	})
}

func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

var errNoTable = errors.New("the source has no table")

const columnFields = "column_name, data_type, column_type, COALESCE(character_set_name, ''), COALESCE(collation_name, ''), " +
	"is_nullable = 'YES', COALESCE(generation_expression, '')"

const columnsQuery = "SELECT " + columnFields +
	" FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position"

// indexFields and indexOrder are the columns and the order of a query for tables' indexes. Its result has one row per
// column of an index. column_name is NULL if the index is on an expression.
const (
	indexFields = "index_name, non_unique, column_name, sub_part IS NULL AND index_type = 'BTREE'"
	indexOrder  = "index_name <> 'PRIMARY', index_name, seq_in_index"
)

const indexesQuery = "SELECT " + indexFields +
	" FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? ORDER BY " + indexOrder

// beginner is a connection pool, or a connection outside of a transaction.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// readSchema reads a table's schema. If the table doesn't exist, or the account may not see it, the error is Fatal.
func readSchema(ctx context.Context, db beginner, t *replicator.Table) (*schema, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	return schemaIn(ctx, tx, t)
}

// readSchemaAt returns a table's schema, and a log end that fits it: the schema includes each ALTER that is logged
// before that end, and none after it. Both are read in one transaction, which blocks an ALTER.
func readSchemaAt(ctx context.Context, db beginner, srv server, t *replicator.Table) (*schema, logEnd, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, logEnd{}, err
	}
	defer tx.Rollback()
	s, err := schemaIn(ctx, tx, t)
	if err != nil {
		return nil, logEnd{}, err
	}
	var end logEnd
	end.file, end.pos, _, err = srv.status(ctx, tx)
	return s, end, err
}

type logEnd struct {
	file fileName
	pos  int64
}

func (e logEnd) order(epoch int) int64 { return orderOf(epoch, e.file.number, e.pos) }

// schemaIn reads a table's schema. It reads from the table itself first: that waits for an ALTER that is completing,
// and blocks others until the transaction ends.
//
// Without that read, MySQL may have logged an ALTER that information_schema does not show yet, and MariaDB's
// information_schema may leave out a table that is being replaced.
func schemaIn(ctx context.Context, tx *sql.Tx, t *replicator.Table) (*schema, error) {
	s, err := columnsIn(ctx, tx, t)
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, indexesQuery, t.Database, t.Table)
	if err != nil {
		return nil, err
	}
	err = s.readIndexes(rows)
	s.mixed = s.mixesSpellings(t)
	return s, err
}

func columnsIn(ctx context.Context, tx *sql.Tx, t *replicator.Table) (*schema, error) {
	noTable := replicator.Fatal(fmt.Errorf("table %s: %w %s.%s, or the account lacks SELECT on it", t.Name,
		errNoTable, t.Database, t.Table))
	err := touch(ctx, tx, t)
	if my := (*mysqlError)(nil); errors.As(err, &my) {
		switch my.Number {
		case errnoNoSuchTable, errnoNoSuchDatabase, errnoTableDenied, errnoDBAccessDenied:
			return nil, noTable
		}
	}
	if err != nil {
		return nil, err
	}
	s := &schema{constants: constantsOf(t)}
	rows, err := tx.QueryContext(ctx, columnsQuery, t.Database, t.Table)
	if err != nil {
		return nil, err
	}
	if err := eachRow(rows, func() error { return s.readColumn(rows.Scan) }); err != nil {
		return nil, err
	}
	if len(s.columns) == 0 {
		return nil, noTable
	}
	return s, s.readOptions(ctx, tx, t)
}

func (s *schema) readColumn(scan func(...any) error) error {
	c := declaredColumn{}
	var expression string
	if err := scan(&c.Name, &c.dataType, &c.fullType, &c.Charset, &c.collation, &c.nullable, &expression); err != nil {
		return err
	}
	switch expression {
	case "", rowStartExpression:
	case rowEndExpression:
		s.rowEnd = c.Name
	default:
		c.generated = true
	}
	c.complete()
	s.columns = append(s.columns, c)
	return nil
}

func (s *schema) readIndexes(rows *sql.Rows) error {
	var all []index
	err := eachRow(rows, func() (err error) {
		all, err = readIndex(all, rows.Scan)
		return err
	})
	s.takeIndexes(all)
	return err
}

func readIndex(all []index, scan func(...any) error) ([]index, error) {
	var name string
	var nonUnique, ordered bool
	var column sql.NullString
	if err := scan(&name, &nonUnique, &column, &ordered); err != nil {
		return all, err
	}
	if len(all) == 0 || all[len(all)-1].name != name {
		all = append(all, index{name: name, unique: !nonUnique, columnsOnly: true, ordered: true})
	}
	last := &all[len(all)-1]
	last.columnsOnly = last.columnsOnly && column.Valid
	last.ordered = last.ordered && ordered
	last.columns = append(last.columns, column.String)
	return all, nil
}

func (s *schema) takeIndexes(all []index) {
	for _, x := range all {
		if x.columns = s.withoutRowEnd(x.columns); !x.columnsOnly || len(x.columns) == 0 {
			continue
		}
		s.indexed = append(s.indexed, x.columns)
		if x.ordered {
			s.ordered = append(s.ordered, x)
		}
		if x.unique {
			s.unique = append(s.unique, x.columns)
		}
		if x.name == "PRIMARY" {
			s.primary = x.columns
		}
	}
}

func (c *declaredColumn) complete() {
	c.dataType = strings.ToLower(c.dataType)
	full := strings.ToLower(c.fullType)
	c.Unsigned = strings.Contains(full, " unsigned") || strings.Contains(full, " zerofill")
	switch c.dataType {
	case "enum", "set":
		c.Members = parseMembers(c.fullType)
	case "double":
		var all int
		_, err := fmt.Sscanf(full, "double(%d,%d)", &all, &c.Digits)
		c.Rounded = err == nil
	case "time", "datetime", "timestamp": // no number in the type means no fractional digits
		_, _ = fmt.Sscanf(full, c.dataType+"(%d)", &c.Digits)
		c.Hires = c.Digits > 0 && strings.Contains(full, "/* mariadb-5.3 */")
	case "uuid":
		c.Special = binlog.KindUUID
	case "inet4":
		c.Special = binlog.KindInet4
	case "inet6":
		c.Special = binlog.KindInet6
	}
}

// parseMembers returns the members of an ENUM or SET, such as enum('a','b,c'). In a member, a quote is doubled.
func parseMembers(full string) []string {
	var members []string
	_, rest, _ := strings.Cut(full, "(")
	for {
		_, after, ok := strings.Cut(rest, "'")
		if !ok {
			return members
		}
		var b strings.Builder
		for {
			text, tail, ok := strings.Cut(after, "'")
			b.WriteString(text)
			if !ok {
				return members
			}
			if !strings.HasPrefix(tail, "'") {
				rest = tail
				break
			}
			b.WriteByte('\'')
			after = tail[1:]
		}
		members = append(members, b.String())
	}
}

// readCharsets asks the server for the character set of each collation, by the collation's number (id). For collations
// of several character sets, MariaDB 10.10 and later have ids only in COLLATION_CHARACTER_SET_APPLICABILITY.
func readCharsets(ctx context.Context, db querier, f gtid.Flavor) (binlog.Charsets, error) {
	queries := []string{"SELECT id, character_set_name FROM information_schema.collations WHERE character_set_name IS NOT NULL"}
	if f == gtid.MariaDB {
		queries = append(queries,
			"SELECT id, character_set_name FROM information_schema.collation_character_set_applicability "+
				"WHERE id IS NOT NULL AND character_set_name IS NOT NULL")
	}
	found := map[uint64]string{}
	for i, q := range queries {
		rows, err := db.QueryContext(ctx, q)
		if err != nil {
			var my *mysqlError
			if i > 0 && errors.As(err, &my) { // the column does not exist before MariaDB 10.10
				break
			}
			return binlog.Charsets{}, err
		}
		err = eachRow(rows, func() error {
			var id uint64
			var name string
			if err := rows.Scan(&id, &name); err != nil {
				return err
			}
			found[id] = name
			return nil
		})
		if err != nil {
			return binlog.Charsets{}, err
		}
	}
	return binlog.NewCharsets(f, found), nil
}

// binlogTypes are the binlog's type codes that a declared type may have, including old formats.
var binlogTypes = map[string][]byte{
	"tinyint":    {mysql.MYSQL_TYPE_TINY},
	"smallint":   {mysql.MYSQL_TYPE_SHORT},
	"mediumint":  {mysql.MYSQL_TYPE_INT24},
	"int":        {mysql.MYSQL_TYPE_LONG},
	"bigint":     {mysql.MYSQL_TYPE_LONGLONG},
	"float":      {mysql.MYSQL_TYPE_FLOAT},
	"double":     {mysql.MYSQL_TYPE_DOUBLE},
	"decimal":    {mysql.MYSQL_TYPE_NEWDECIMAL},
	"bit":        {mysql.MYSQL_TYPE_BIT},
	"year":       {mysql.MYSQL_TYPE_YEAR},
	"date":       {mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE},
	"time":       {mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2},
	"datetime":   {mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_DATETIME2},
	"timestamp":  {mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIMESTAMP2},
	"char":       {mysql.MYSQL_TYPE_STRING},
	"binary":     {mysql.MYSQL_TYPE_STRING},
	"varchar":    {mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, binlog.TypeVarcharCompressed},
	"varbinary":  {mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, binlog.TypeVarcharCompressed},
	"tinytext":   {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"text":       {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"mediumtext": {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"longtext":   {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"tinyblob":   {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"blob":       {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"mediumblob": {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"longblob":   {mysql.MYSQL_TYPE_BLOB, binlog.TypeBlobCompressed},
	"enum":       {mysql.MYSQL_TYPE_ENUM},
	"set":        {mysql.MYSQL_TYPE_SET},
	"json":       {mysql.MYSQL_TYPE_JSON},
	"uuid":       {mysql.MYSQL_TYPE_STRING},
	"inet4":      {mysql.MYSQL_TYPE_STRING},
	"inet6":      {mysql.MYSQL_TYPE_STRING},
	"geometry":   {mysql.MYSQL_TYPE_GEOMETRY},
	"point":      {mysql.MYSQL_TYPE_GEOMETRY},
}
