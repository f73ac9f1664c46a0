package binlog

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"replicator/canal/gtid"
)

// MariaDB's types of COMPRESSED columns.
const (
	TypeBlobCompressed    = 140
	TypeVarcharCompressed = 141
)

// TableMap is a TABLE_MAP event: a table's columns at the time of the following rows. Its strings share the event's
// memory.
type TableMap struct {
	ID              uint64
	Database, Table []byte
	Types           []byte
	metas           []uint16

	// Optional metadata. A slice is nil if the server didn't write it.
	Names      [][]byte
	unsigned   []bool
	collations []uint64 // by column; 0 if the column is not text, or if its collation is unknown
	members    [][][]byte
	hasMembers bool
	signs      bool
	charsets   bool
}

// SplitTableMap reads only the id and names of a TABLE_MAP event. For an unwatched table, that is enough.
func SplitTableMap(body []byte) (m TableMap, c Cursor, err error) {
	c = Cursor{B: body}
	m.ID = c.Uint(6)
	c.Take(2)
	m.Database = c.Take(int(c.Uint8()))
	c.Take(1)
	m.Table = c.Take(int(c.Uint8()))
	c.Take(1)
	return m, c, c.Err("table map")
}

// ParseTableMap reads the whole event. The meaning of its character sets depends on the flavor f: only MariaDB writes
// one for a GEOMETRY column, and only MySQL for a VECTOR column (isText).
func ParseTableMap(body []byte, f gtid.Flavor) (TableMap, error) {
	m, c, err := SplitTableMap(body)
	if err != nil {
		return m, err
	}
	n := c.Packed()
	if n == 0 || n > uint64(c.Left()) || n > 4096 {
		return m, fmt.Errorf("table map: invalid column count %d", n)
	}
	m.Types = c.Take(int(n))
	meta := Cursor{B: c.PackedBytes()}
	m.metas = make([]uint16, n)
	for i, t := range m.Types {
		switch t {
		case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_NEWDECIMAL:
			if p := meta.Take(2); p != nil {
				m.metas[i] = binary.BigEndian.Uint16(p)
			}
		case mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BIT, TypeVarcharCompressed,
			mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET:
			m.metas[i] = uint16(meta.Uint(2))
		case mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_GEOMETRY,
			mysql.MYSQL_TYPE_VECTOR, mysql.MYSQL_TYPE_JSON, mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_DATETIME2,
			mysql.MYSQL_TYPE_TIMESTAMP2, TypeBlobCompressed:
			m.metas[i] = uint16(meta.Uint8())
		}
	}
	c.Take((int(n) + 7) / 8) // skip the bitmap of the columns that may be NULL
	if err := meta.Err("table map"); err != nil {
		return m, err
	}
	for c.Left() > 0 && !c.Bad {
		kind := c.Uint8()
		if err := m.optional(kind, c.PackedBytes(), f); err != nil {
			return m, err
		}
	}
	return m, c.Err("table map")
}

func (m *TableMap) optional(kind byte, data []byte, f gtid.Flavor) error {
	c := Cursor{B: data}
	switch kind {
	case replication.TABLE_MAP_OPT_META_SIGNEDNESS:
		m.signs = true
		m.unsigned = make([]bool, len(m.Types))
		bit := 0
		for i := range m.Types {
			if m.hasSign(i) {
				if bit/8 < len(data) {
					m.unsigned[i] = data[bit/8]&(0x80>>(bit%8)) != 0
				}
				bit++
			}
		}
	case replication.TABLE_MAP_OPT_META_DEFAULT_CHARSET:
		return m.defaultCollations(&c, func(i int) bool { return m.hasCharset(i, f) })
	case replication.TABLE_MAP_OPT_META_ENUM_AND_SET_DEFAULT_CHARSET:
		return m.defaultCollations(&c, m.isEnumOrSet)
	case replication.TABLE_MAP_OPT_META_COLUMN_CHARSET:
		return m.columnCollations(&c, func(i int) bool { return m.hasCharset(i, f) })
	case replication.TABLE_MAP_OPT_META_ENUM_AND_SET_COLUMN_CHARSET:
		return m.columnCollations(&c, m.isEnumOrSet)
	case replication.TABLE_MAP_OPT_META_COLUMN_NAME:
		for c.Left() > 0 && !c.Bad {
			m.Names = append(m.Names, c.Take(int(c.Uint8())))
		}
		if len(m.Names) != len(m.Types) {
			return fmt.Errorf("table map: %d names for %d columns", len(m.Names), len(m.Types))
		}
	case replication.TABLE_MAP_OPT_META_SET_STR_VALUE:
		return m.readMembers(&c, mysql.MYSQL_TYPE_SET)
	case replication.TABLE_MAP_OPT_META_ENUM_STR_VALUE:
		return m.readMembers(&c, mysql.MYSQL_TYPE_ENUM)
	}
	return c.Err("table map")
}

func (m *TableMap) setCollation(i int, id uint64) {
	if m.collations == nil {
		m.collations = make([]uint64, len(m.Types))
	}
	m.charsets = true
	m.collations[i] = id
}

// defaultCollations reads one collation for all columns for which is(column) is true, and then the exceptions. An
// exception is a pair: the column's number among these columns, and its collation.
func (m *TableMap) defaultCollations(c *Cursor, is func(int) bool) error {
	all := c.Packed()
	others := map[uint64]uint64{}
	for c.Left() > 0 && !c.Bad {
		n := c.Packed()
		others[n] = c.Packed()
	}
	nth := uint64(0)
	for i := range m.Types {
		if !is(i) {
			continue
		}
		id, ok := others[nth]
		if !ok {
			id = all
		}
		m.setCollation(i, id)
		nth++
	}
	return c.Err("table map")
}

func (m *TableMap) columnCollations(c *Cursor, is func(int) bool) error {
	for i := range m.Types {
		if is(i) && c.Left() > 0 {
			m.setCollation(i, c.Packed())
		}
	}
	return c.Err("table map")
}

func (m *TableMap) readMembers(c *Cursor, kind byte) error {
	if m.members == nil {
		m.members = make([][][]byte, len(m.Types))
	}
	m.hasMembers = true
	for i := range m.Types {
		if m.RealType(i) != kind || c.Left() == 0 {
			continue
		}
		n := c.Packed()
		if n > uint64(c.Left()) {
			return fmt.Errorf("table map: %w", ErrShort)
		}
		list := make([][]byte, 0, n)
		for range n {
			list = append(list, bytes.Clone(c.PackedBytes()))
		}
		m.members[i] = list
	}
	return c.Err("table map")
}

// RealType returns the type of column i. For ENUM and SET, the map's own type is STRING.
func (m *TableMap) RealType(i int) byte {
	t := m.Types[i]
	if t == mysql.MYSQL_TYPE_STRING {
		if real := byte(m.metas[i] >> 8); real == mysql.MYSQL_TYPE_ENUM || real == mysql.MYSQL_TYPE_SET {
			return real
		}
	}
	return t
}

// hasSign reports whether the map has a bit for column i in its list of UNSIGNED columns (as table_def::type in the
// servers' rpl_utility).
func (m *TableMap) hasSign(i int) bool {
	switch m.Types[i] {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG,
		mysql.MYSQL_TYPE_LONGLONG,
		mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_FLOAT,
		mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_YEAR:
		return true
	}
	return false
}

// hasCharset reports whether the map gives column i a character set, if its server writes character sets.
func (m *TableMap) hasCharset(i int, f gtid.Flavor) bool {
	switch m.RealType(i) {
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB,
		TypeBlobCompressed, TypeVarcharCompressed:
		return true
	case mysql.MYSQL_TYPE_GEOMETRY:
		return f == gtid.MariaDB
	case mysql.MYSQL_TYPE_VECTOR: // MySQL writes a character set for VECTOR, although it is not text (seen on 9.7)
		return f == gtid.MySQL
	}
	return false
}

func (m *TableMap) isEnumOrSet(i int) bool {
	t := m.RealType(i)
	return t == mysql.MYSQL_TYPE_ENUM || t == mysql.MYSQL_TYPE_SET
}

// Meta returns the metadata of column i: a length or a number of digits, depending on the type.
func (m *TableMap) Meta(i int) int { return int(m.metas[i]) }

// Unsigned reports whether column i is UNSIGNED. said is false if the server didn't write the sign.
func (m *TableMap) Unsigned(i int) (unsigned, said bool) {
	if !m.signs || !m.hasSign(i) {
		return false, false
	}
	return m.unsigned[i], true
}

// Charset returns the character set of column i. said is false if the server didn't write the column's collation, or if
// we don't know that collation.
func (m *TableMap) Charset(i int, sets Charsets) (name string, said bool) {
	if !m.charsets || m.collations[i] == 0 {
		return "", false
	}
	name, said = sets.Collations[m.collations[i]]
	return name, said
}

// HasDigits reports whether Meta is the number of fractional digits of a time.
func (m *TableMap) HasDigits(i int) bool {
	switch m.Types[i] {
	case mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2:
		return true
	}
	return false
}

// IsPacked reports whether column i is a COMPRESSED column of MariaDB.
func (m *TableMap) IsPacked(i int) bool {
	return m.Types[i] == TypeBlobCompressed || m.Types[i] == TypeVarcharCompressed
}

// StringLength is the declared length of a CHAR or BINARY column, in bytes.
func (m *TableMap) StringLength(i int) int {
	_, length := splitString(int(m.metas[i]))
	return length
}

// splitString splits the metadata of type STRING into the real type and the length in bytes. If a CHAR is longer than
// 255 bytes, two bits of the length are in the byte of the real type.
func splitString(meta int) (t byte, length int) {
	hi := meta >> 8
	switch {
	case hi == 0:
		return mysql.MYSQL_TYPE_STRING, meta
	case hi&0x30 != 0x30:
		return byte(hi | 0x30), meta&0xff | (hi&0x30^0x30)<<4
	}
	return byte(hi), meta & 0xff
}
