package codec

import (
	"errors"
	"sync"
	"time"
)

// A body that decompresses to megabytes needs them while it is decoded. Several lanes that each decompress such bodies,
// into memory of their own that grows as it fills and then is garbage, take ten times as much as one body. So one body
// at a time is large, in memory that is kept for the next one, until none has come for a while.

// space is memory for decompression: what one layer reads, and what it writes.
type space [2][]byte

const (
	maxSmall = 512 << 10 // what a small space's buffers grow to
	minLarge = 2 << 20   // what a large space's buffers begin with

	// keepLarge is for how long a large space is kept.
	keepLarge = 10 * time.Second
)

// errLarge says that a body has to be decompressed into a large space.
var errLarge = errors.New("the body is large when it is decompressed")

// grown is how large a buffer is that replaces a full one: never more than the bound and the byte that shows it was
// passed, so a bomb costs no more than that.
func grown(size int) int {
	if size < maxSmall {
		return min(max(512, 2*size), maxSmall)
	}
	return min(2*size, MaxSize+1)
}

// large is the space of all codecs of the process for large bodies.
var large largeSpace

type largeSpace struct {
	using sync.Mutex // held by who uses it

	mu      sync.Mutex // guards what follows
	kept    *space
	dropped *time.Timer
}

// get waits for the space.
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

// put gives the space to whoever waits for it, and has it dropped if nobody does.
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
