package codec

import (
	"errors"
	"sync"
	"time"
)

// Decompressing a large body takes megabytes of memory. If every lane (one of a pipeline's writers) decompressed large
// bodies into its own growing memory, that would take about ten times the size of one body. So only one large body is
// decompressed at a time. Its memory is kept for the next one, and dropped after some time without one.

// space is memory for decompression: the input and the output of one layer.
type space [2][]byte

const (
	maxSmall = 512 << 10 // the size limit of the buffers for small bodies
	minLarge = 2 << 20   // the initial size of the buffers for large bodies

	// keepLarge is how long unused buffers for large bodies are kept.
	keepLarge = 10 * time.Second
)

// errLarge means that the decompressed body doesn't fit into the buffers for small bodies.
var errLarge = errors.New("the body is large when it is decompressed")

// grown returns the size of the buffer that replaces a full one: at most MaxSize plus one byte. The extra byte shows
// that the body exceeds the limit, so a decompression bomb costs no more memory.
func grown(size int) int {
	if size < maxSmall {
		return min(max(512, 2*size), maxSmall)
	}
	return min(2*size, MaxSize+1)
}

// large is the only space for large bodies in the process. All codecs share it.
var large largeSpace

type largeSpace struct {
	using sync.Mutex // held while the space is in use

	mu      sync.Mutex // guards the fields below
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

// put ends the use of the space. A timer frees its memory unless it is used again within keepLarge.
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
