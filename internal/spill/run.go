package spill

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"os"
	"sort"
)

// blockSize is roughly how many bytes of a file are read at once.
const blockSize = 16 << 10

// run is an immutable file of entries in key order, in blocks. An entry consists of the lengths of key and value, as
// varints, and then the key and the value.
type run struct {
	file   *os.File // removed from its directory, so that the file ends with the process
	size   int64
	count  int
	filter filter

	offsets []int64 // by block: where the block begins in the file
	starts  []int64 // by block: where the block's first key begins in the field `keys`
	keys    []byte  // the first keys of all blocks, one after the other
}

func (r *run) first(block int) []byte {
	end := int64(len(r.keys))
	if block+1 < len(r.starts) {
		end = r.starts[block+1]
	}
	return r.keys[r.starts[block]:end]
}

// blockOf returns the block that may hold a key; -1 if the key is before all blocks.
func (r *run) blockOf(key []byte) int {
	return sort.Search(len(r.offsets), func(i int) bool { return bytes.Compare(r.first(i), key) > 0 }) - 1
}

// read reads a block into the array of `memory`, or into a new array if that one is too small.
func (r *run) read(block int, memory []byte) ([]byte, error) {
	end := r.size
	if block+1 < len(r.offsets) {
		end = r.offsets[block+1]
	}
	n := int(end - r.offsets[block])
	if cap(memory) < n {
		memory = make([]byte, n)
	}
	memory = memory[:n]
	_, err := r.file.ReadAt(memory, r.offsets[block])
	return memory, err
}

// get looks up a key. It reads the block that may have the key into `memory`, or into a larger slice if needed.
// It returns the block, and the value as a part of the block.
func (r *run) get(key, memory []byte) (value []byte, ok bool, block []byte, err error) {
	at := r.blockOf(key)
	if at < 0 {
		return nil, false, memory, nil
	}
	if memory, err = r.read(at, memory); err != nil {
		return nil, false, memory, err
	}
	for rest := memory; len(rest) > 0; {
		var k, v []byte
		if k, v, rest, err = split(rest); err != nil {
			return nil, false, memory, err
		}
		switch c := bytes.Compare(k, key); {
		case c == 0:
			return v, true, memory, nil
		case c > 0:
			return nil, false, memory, nil
		}
	}
	return nil, false, memory, nil
}

// split returns the first entry of a block, and the rest.
func split(block []byte) (key, value, rest []byte, err error) {
	k, n := binary.Uvarint(block)
	if n <= 0 {
		return nil, nil, nil, errDamaged
	}
	v, more := binary.Uvarint(block[n:])
	block = block[n+max(more, 0):]
	if more <= 0 || k > uint64(len(block)) || v > uint64(len(block))-k {
		return nil, nil, nil, errDamaged
	}
	return block[:k:k], block[k : k+v : k+v], block[k+v:], nil
}

var errDamaged = errors.New("a file does not hold what was written to it")

type writer struct {
	*run
	out  *bufio.Writer
	seed maphash.Seed
	head []byte
}

// newRun creates the file of a run, for at most count entries.
func newRun(dir string, seed maphash.Seed, count int) (*writer, error) {
	file, err := os.CreateTemp(dir, "replicator-")
	if err != nil {
		return nil, err
	}
	// Without a name, the file is removed when the process ends, even after a crash.
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &writer{run: &run{file: file, filter: newFilter(count)}, out: bufio.NewWriterSize(file, 256<<10),
		seed: seed}, nil
}

// add appends an entry, whose key must be higher than the previous one.
func (w *writer) add(key, value []byte) error {
	if n := len(w.offsets); n == 0 || w.size-w.offsets[n-1] >= blockSize {
		w.offsets, w.starts = append(w.offsets, w.size), append(w.starts, int64(len(w.keys)))
		w.keys = append(w.keys, key...)
	}
	w.filter.add(maphash.Bytes(w.seed, key))
	w.head = binary.AppendUvarint(w.head[:0], uint64(len(key)))
	w.head = binary.AppendUvarint(w.head, uint64(len(value)))
	for _, b := range [][]byte{w.head, key, value} {
		n, err := w.out.Write(b)
		w.size += int64(n)
		if err != nil {
			return err
		}
	}
	w.count++
	return nil
}

// end writes the entries that are still buffered to the file. The file can then be read.
func (w *writer) end() (*run, error) {
	if err := w.out.Flush(); err != nil {
		return nil, err
	}
	return w.run, nil
}
