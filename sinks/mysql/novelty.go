package mysql

import (
	"context"
	"database/sql"
	"errors"
	"hash/maphash"
	"sync/atomic"
)

// Most cells of a first replay or fill have no state yet, and their keys no rows. Batches guess which ones and skip two
// queries: they don't read a state that can't exist, and don't delete old rows before an insert if the table has one
// row per key. Primary and unique keys refuse a wrong guess (another replicator wrote the state, or another program the
// row). Then the batch is repeated without guesses, and the target stops guessing.
//
// On MySQL 9.7 a new cell of one index costs the server 25 µs of processor time with both queries, and 16 without.

// novelty guesses which cells have no state: those that the target has not met, if the table of states was empty when
// it was opened. It is a Bloom filter of the cells that it met, and safe for concurrent use.
type novelty struct {
	seed maphash.Seed
	bits []atomic.Uint64
}

// noveltyWords make 4 MiB. The filter then mistakes 0.5 % of a million new cells for known ones, a third of ten
// millions.
const noveltyWords = 1 << 19

// newNovelty returns nil if there are states already, so that nothing can be guessed.
func newNovelty(ctx context.Context, db *sql.DB) (*novelty, error) {
	var one int
	err := db.QueryRowContext(ctx, "SELECT 1 FROM "+stateTable+" LIMIT 1").Scan(&one)
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, classify(err, "table "+stateTable)
	}
	return &novelty{seed: maphash.MakeSeed(), bits: make([]atomic.Uint64, noveltyWords)}, nil
}

// meet records a cell, and reports whether it may have been met before. n may be nil.
func (n *novelty) meet(entity, cell string) (met bool) {
	if n == nil {
		return true
	}
	h := maphash.String(n.seed, entity)
	if cell != "" {
		h ^= maphash.String(n.seed, cell) * 0x9e3779b97f4a7c15
	}
	mask := uint64(1)<<(h>>58) | uint64(1)<<(h>>52&63)
	return n.bits[h%noveltyWords].Or(mask)&mask == mask
}
