package elastic

import (
	"sync/atomic"
	"time"
)

// An answer that holds documents should stay below both of these limits. Replicator and the node that makes the answer
// both hold it in memory. Elasticsearch unpacks each document as a whole, even if the request asks for little of it. A
// document's size is only known after it was read.
const (
	answerBytes = 8 << 20
	answerTime  = time.Second
)

const (
	fewDocuments = 20   // the number of documents whose states are requested at first
	readItems    = 1000 // the most documents to request at once
)

// mostAnswer is the size at which the client aborts an answer with several documents. It then requests fewer documents
// at once.
const mostAnswer = 4 * answerBytes

// paced returns how many documents to request next, but not more than `most`. n is the current number. answered, bytes
// and took are how many documents the last answer had, how large it was, and how long it took. Large documents may
// reduce n to one. A slow cluster never reduces it below fewDocuments.
func paced(n, most, answered, bytes int, took time.Duration) int {
	switch {
	case bytes > answerBytes:
		return max(answered*answerBytes/bytes, 1)
	case took > answerTime:
		return min(n, max(answered/2, fewDocuments))
	case bytes < answerBytes/2 && took < answerTime/2:
		return max(n, min(2*answered, most))
	}
	return n
}

// pace is how many documents to request at once, based on recent answers. It is safe for concurrent use: if several
// goroutines update it at once, one update counts.
type pace struct{ n atomic.Int64 }

func (p *pace) documents() int {
	if n := p.n.Load(); n > 0 {
		return int(n)
	}
	return fewDocuments
}

func (p *pace) learn(answered, bytes int, took time.Duration) {
	p.n.Store(int64(paced(p.documents(), readItems, answered, bytes, took)))
}

// sizes is the average size of a view's documents over the last few hundred reads. It is safe for concurrent use, like
// pace.
type sizes struct{ mean atomic.Int64 }

func (s *sizes) learn(bytes int) {
	const weight = 100
	mean := s.mean.Load()
	if mean == 0 {
		s.mean.Store(int64(bytes))
		return
	}
	s.mean.Store((mean*(weight-1) + int64(bytes)) / weight)
}

// raise sets the average size to at least the given size.
func (s *sizes) raise(bytes int) { s.mean.Store(max(s.mean.Load(), int64(bytes))) }

// expected returns the likely size of a document.
func (s *sizes) expected() int {
	const unknown = 1 << 20
	if mean := s.mean.Load(); mean > 0 {
		return int(mean)
	}
	return unknown
}

// large reports whether documents are so large that sending them costs more than extracting their states. Then
// documents are no longer read whole if only the state is needed. Only whole documents change the average, so it hardly
// changes any more.
func (s *sizes) large() bool { return s.mean.Load() > 64<<10 }
