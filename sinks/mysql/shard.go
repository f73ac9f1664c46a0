package mysql

import (
	"fmt"
	"hash/crc32"
	"math/big"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/uuid"
)

// shardColumn is the column of a view whose value decides an entry's shard.
type shardColumn struct {
	*column
	inKey bool // the column is a key column, so an entry can't move to another shard
	place int  // the column's index: in keeper.keys if inKey is set, else in keeper.fields
}

// shardable are the types of columns by which a view can be sharded: see shardOf.
var shardable = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "char", "varchar", "tinytext", "text",
	"mediumtext", "longtext", "enum",
	"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "uuid"}

// shardOf returns the number of the shard that a value belongs to, 0 ≤ shard < n. The value must not be nil, and must
// have been converted by column.convert, because the form that the table holds decides the shard.
//
//	integers                 value mod n, never negative: -1 belongs to the last shard
//	16 bytes, and a UUID     the bytes as a big-endian unsigned integer, mod n
//	texts and other bytes    CRC-32 (IEEE) mod n. A text's bytes are its UTF-8, whatever the column's character set
//
// Applications use this rule to find entries, so it must never change.
func (c *column) shardOf(bound any, n int) int {
	switch v := bound.(type) {
	case int64:
		return int((v%int64(n) + int64(n)) % int64(n))
	case uint64:
		return int(v % uint64(n))
	case string:
		if id, ok := uuid.Parse(v); ok && c.typ == "uuid" {
			return c.shardOf(id, n)
		}
		return int(crc32.ChecksumIEEE([]byte(v)) % uint32(n))
	case []byte:
		if len(v) == 16 {
			number := new(big.Int).SetBytes(v)
			return int(number.Mod(number, big.NewInt(int64(n))).Int64())
		}
		return int(crc32.ChecksumIEEE(v) % uint32(n))
	}
	panic(fmt.Sprintf("column %s selects the shard, but has a value of type %T", c.name, bound))
}

func (k *keeper) findShardColumn() (problems []string) {
	named := func(c *column) bool { return strings.EqualFold(c.name, settingsOf(k.view).ShardOn) }
	on := &shardColumn{place: slices.IndexFunc(k.keys, named)}
	if on.inKey = on.place >= 0; on.inKey {
		on.column = k.keys[on.place]
	} else if on.place = slices.IndexFunc(k.fields, named); on.place >= 0 {
		on.column = k.fields[on.place]
	} else {
		return []string{fmt.Sprintf("its shard_on, %s, is not a column of the view", settingsOf(k.view).ShardOn)}
	}
	if !slices.Contains(shardable, on.typ) {
		problems = append(problems, fmt.Sprintf("its shard_on, %s, is %s: only integers, texts and bytes can select "+
			"a shard", on.name, on.declared))
	}
	k.shardOn = on
	return problems
}

// homes splits a value's entries by shard. If the view can't hold the value, every shard gets all of its entries, so
// that every shard rejects it.
func (k *keeper) homes(key []any, version int64, v replicator.Value, n int) [][]replicator.Entry {
	parts := make([][]replicator.Entry, n)
	if _, err := k.key(key); err != nil {
		return everywhere(parts, v.Entries)
	}
	entries := 0
	for _, e := range v.Entries {
		r, err := k.kind.row(k, e, version)
		if err != nil {
			return everywhere(parts, v.Entries)
		}
		if r == nil {
			continue
		}
		shard := k.shardOn.shardOf(r[k.shardOn.place], n)
		parts[shard] = append(parts[shard], e)
		entries++
	}
	if entries > 1 && k.single { // every shard rejects the value, because its table has one row per key
		return everywhere(parts, v.Entries)
	}
	return parts
}

func everywhere(parts [][]replicator.Entry, entries []replicator.Entry) [][]replicator.Entry {
	for i := range parts {
		parts[i] = entries
	}
	return parts
}

// home is the shard of a key, if the column that decides the shard is part of the key. A key that can't be converted
// belongs to the first shard, which rejects it.
func (k *keeper) home(key []any, n int) int {
	bound, err := k.key(key)
	if err != nil {
		return 0
	}
	return k.shardOn.shardOf(bound[k.shardOn.place], n)
}
