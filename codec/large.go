package codec

import (
	"errors"
	"sync"
	"time"
)

// Decompressing a large body takes megabytes of memory. So only one large body is decompressed at a time in the
// process, even if several goroutines decode. Its memory is kept for the next large body, and dropped after some time
// without one.

// space holds the two buffers for decompression: each compression layer reads one and writes the other.
type space [2][]byte

const (
	maxSmall = 512 << 10 // the size limit of the buffers for small bodies
	minLarge = 2 << 20   // the initial size of the buffers for large bodies

	// keepLarge is how long unused buffers for large bodies are kept.
	keepLarge = 10 * time.Second
)

// errLarge never leaves Codec.unpack, which tries again with the buffers for large bodies.
var errLarge = errors.New("the decompressed body does not fit into the buffers for small bodies")

// grown returns the size of the buffer that replaces a full one. The maximum is one byte more than MaxSize, because
// this byte is enough to show that the body is too large.
func grown(size int) int {
	if size < maxSmall {
		return min(max(512, 2*size), maxSmall)
	}
	return min(2*size, MaxSize+1)
}

// large holds the buffers for large bodies, which all codecs of the process share.
var large largeSpace

type largeSpace struct {
	using sync.Mutex // held while a caller uses the buffers

	mu      sync.Mutex
	kept    *space
	dropped *time.Timer
}

func (l *largeSpace) get() *space {
	l.using.Lock()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.kept
	if l.kept = nil; s == nil {
		s = &space{make([]byte, 0, minLarge), make([]byte, 0, minLarge)}
	}
	return s
}

// put keeps the buffers for the next large body. A timer drops them unless they are used again within keepLarge.
func (l *largeSpace) put(s *space) {
	l.mu.Lock()
	l.kept = s
	if l.dropped == nil {
		l.dropped = time.AfterFunc(keepLarge, l.drop)
	} else {
		l.dropped.Reset(keepLarge)
	}
	l.mu.Unlock()
	l.using.Unlock()
}

func (l *largeSpace) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = nil
}
