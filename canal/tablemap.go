package canal

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
	typeBlobCompressed    = 140
	typeVarcharCompressed = 141
)

// tableMap is a TABLE_MAP event: the columns of a table as they were when the rows that follow were written. Its
// strings alias the event.
type tableMap struct {
	id              uint64
	database, table []byte
	types           []byte
	metas           []uint16

	// Optional metadata: what the server wrote of it. A nil slice was not written.
	names      [][]byte
	unsigned   []bool   // per column
	collations []uint64 // per column; 0 where it is no text or not known
	members    [][][]byte
	hasMembers bool
	signs      bool
	charsets   bool
	primaryKey []int
}

// splitTableMap reads the id and names of a TABLE_MAP event: all that an unwatched table costs.
func splitTableMap(body []byte) (m tableMap, c cursor, err error) {
	c = cursor{b: body}
	m.id = c.uint(6)
	c.take(2)
	m.database = c.take(int(c.u8()))
	c.take(1)
	m.table = c.take(int(c.u8()))
	c.take(1)
	return m, c, c.err("table map")
}

// parseTableMap reads the rest. f decides which columns MariaDB counts as text.
func parseTableMap(body []byte, f gtid.Flavor) (tableMap, error) {
	m, c, err := splitTableMap(body)
	if err != nil {
		return m, err
	}
	n := c.packed()
	if n == 0 || n > uint64(c.left()) || n > 4096 {
		return m, fmt.Errorf("table map: %d columns", n)
	}
	m.types = c.take(int(n))
	meta := cursor{b: c.packedBytes()}
	m.metas = make([]uint16, n)
	for i, t := range m.types {
		switch t {
		case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_NEWDECIMAL:
			if p := meta.take(2); p != nil {
				m.metas[i] = binary.BigEndian.Uint16(p)
			}
		case mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BIT, typeVarcharCompressed,
			mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET:
			m.metas[i] = uint16(meta.uint(2))
		case mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_GEOMETRY,
			mysql.MYSQL_TYPE_VECTOR, mysql.MYSQL_TYPE_JSON, mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_DATETIME2,
			mysql.MYSQL_TYPE_TIMESTAMP2, typeBlobCompressed:
			m.metas[i] = uint16(meta.u8())
		}
	}
	c.take((int(n) + 7) / 8) // which columns may be NULL
	if err := meta.err("table map"); err != nil {
		return m, err
	}
	for c.left() > 0 && !c.bad {
		kind := c.u8()
		if err := m.optional(kind, c.packedBytes(), f); err != nil {
			return m, err
		}
	}
	return m, c.err("table map")
}

// optional reads one field of the optional metadata.
func (m *tableMap) optional(kind byte, data []byte, f gtid.Flavor) error {
	c := cursor{b: data}
	switch kind {
	case replication.TABLE_MAP_OPT_META_SIGNEDNESS:
		m.signs = true
		m.unsigned = make([]bool, len(m.types))
		bit := 0
		for i := range m.types {
			if m.isNumber(i) {
				if bit/8 < len(data) {
					m.unsigned[i] = data[bit/8]&(0x80>>(bit%8)) != 0
				}
				bit++
			}
		}
	case replication.TABLE_MAP_OPT_META_DEFAULT_CHARSET:
		return m.defaultCollations(&c, func(i int) bool { return m.isText(i, f) })
	case replication.TABLE_MAP_OPT_META_ENUM_AND_SET_DEFAULT_CHARSET:
		return m.defaultCollations(&c, m.isEnumOrSet)
	case replication.TABLE_MAP_OPT_META_COLUMN_CHARSET:
		return m.columnCollations(&c, func(i int) bool { return m.isText(i, f) })
	case replication.TABLE_MAP_OPT_META_ENUM_AND_SET_COLUMN_CHARSET:
		return m.columnCollations(&c, m.isEnumOrSet)
	case replication.TABLE_MAP_OPT_META_COLUMN_NAME:
		for c.left() > 0 && !c.bad {
			m.names = append(m.names, c.take(int(c.u8())))
		}
		if len(m.names) != len(m.types) {
			return fmt.Errorf("table map: %d names for %d columns", len(m.names), len(m.types))
		}
	case replication.TABLE_MAP_OPT_META_SET_STR_VALUE:
		return m.readMembers(&c, mysql.MYSQL_TYPE_SET)
	case replication.TABLE_MAP_OPT_META_ENUM_STR_VALUE:
		return m.readMembers(&c, mysql.MYSQL_TYPE_ENUM)
	case replication.TABLE_MAP_OPT_META_SIMPLE_PRIMARY_KEY:
		for c.left() > 0 && !c.bad {
			m.primaryKey = append(m.primaryKey, int(c.packed()))
		}
	}
	return c.err("table map")
}

func (m *tableMap) setCollation(i int, id uint64) {
	if m.collations == nil {
		m.collations = make([]uint64, len(m.types))
	}
	m.charsets = true
	m.collations[i] = id
}

// defaultCollations reads one collation for all columns that is says yes to, then (number among them, collation) pairs.
func (m *tableMap) defaultCollations(c *cursor, is func(int) bool) error {
	all := c.packed()
	others := map[uint64]uint64{}
	for c.left() > 0 && !c.bad {
		n := c.packed()
		others[n] = c.packed()
	}
	nth := uint64(0)
	for i := range m.types {
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
	return c.err("table map")
}

func (m *tableMap) columnCollations(c *cursor, is func(int) bool) error {
	for i := range m.types {
		if is(i) && c.left() > 0 {
			m.setCollation(i, c.packed())
		}
	}
	return c.err("table map")
}

// readMembers reads the members of each ENUM or SET column.
func (m *tableMap) readMembers(c *cursor, kind byte) error {
	if m.members == nil {
		m.members = make([][][]byte, len(m.types))
	}
	m.hasMembers = true
	for i := range m.types {
		if m.realType(i) != kind || c.left() == 0 {
			continue
		}
		n := c.packed()
		if n > uint64(c.left()) {
			return fmt.Errorf("table map: %w", errShort)
		}
		list := make([][]byte, 0, n)
		for range n {
			list = append(list, bytes.Clone(c.packedBytes()))
		}
		m.members[i] = list
	}
	return c.err("table map")
}

// realType is the type of column i: ENUM and SET hide behind STRING.
func (m *tableMap) realType(i int) byte {
	t := m.types[i]
	if t == mysql.MYSQL_TYPE_STRING {
		if real := byte(m.metas[i] >> 8); real == mysql.MYSQL_TYPE_ENUM || real == mysql.MYSQL_TYPE_SET {
			return real
		}
	}
	return t
}

// isNumber: columns that have a bit in the signedness field (table_def::type in the servers' rpl_utility).
func (m *tableMap) isNumber(i int) bool {
	switch m.types[i] {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG,
		mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_YEAR:
		return true
	}
	return false
}

// isText: columns that have an entry in the character set fields.
func (m *tableMap) isText(i int, f gtid.Flavor) bool {
	switch m.realType(i) {
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB,
		typeBlobCompressed, typeVarcharCompressed:
		return true
	case mysql.MYSQL_TYPE_GEOMETRY:
		return f == gtid.MariaDB
	case mysql.MYSQL_TYPE_VECTOR: // tried on 9.7: it has an entry, though it is no text
		return f == gtid.MySQL
	}
	return false
}

func (m *tableMap) isEnumOrSet(i int) bool {
	t := m.realType(i)
	return t == mysql.MYSQL_TYPE_ENUM || t == mysql.MYSQL_TYPE_SET
}
