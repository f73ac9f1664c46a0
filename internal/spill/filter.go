package spill

// filter is a Bloom filter, in which each key uses one cache line. It rules out most keys that were not added.
type filter [][lineWords]uint64

const (
	lineWords  = 8
	lineBits   = 64 * lineWords
	bitsPerKey = 10
	probes     = 6
)

func newFilter(keys int) filter { return make(filter, keys*bitsPerKey/lineBits+1) }

func (f filter) line(hash uint64) *[lineWords]uint64 { return &f[(hash>>32)*uint64(len(f))>>32] }

func (f filter) add(hash uint64) {
	line := f.line(hash)
	for _, bit := range probed(hash) {
		line[bit/64] |= 1 << (bit % 64)
	}
}

func (f filter) may(hash uint64) bool {
	line := f.line(hash)
	for _, bit := range probed(hash) {
		if line[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// probed returns the bits that a key with this hash sets in its cache line. They depend on the lower half of the hash.
// The choice of the line depends on the upper half.
func probed(hash uint64) (all [probes]uint64) {
	h := (hash & 0xffffffff) * 0x9e3779b97f4a7c15
	for i := range all {
		all[i] = h >> (64 - 9)
		h <<= 9
	}
	return all
}
