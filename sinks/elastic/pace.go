package elastic

import (
	"sync/atomic"
	"time"
)

// An answer that holds documents should stay below both of these limits, because replicator and the node that makes the
// answer hold it in memory. The node unpacks each document as a whole, even if the answer has little of it. Then only
// the time shows how large the documents are.
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

// paced returns how many documents to request next, at most `most`. n is the current number. The last answer had
// `answered` documents and `bytes` bytes, and took `took`. Large documents reduce n down to one, a slow cluster only
// down to fewDocuments.
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

// sizes is the average size of a view's documents over the last few hundred reads, in bytes. It is safe for concurrent
// use.
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

func (s *sizes) raise(bytes int) { s.mean.Store(max(s.mean.Load(), int64(bytes))) }

func (s *sizes) expected() int {
	const unknown = 1 << 20
	if mean := s.mean.Load(); mean > 0 {
		return int(mean)
	}
	return unknown
}

// large reports whether documents are so large that the server should send only their states.
func (s *sizes) large() bool { return s.mean.Load() > 64<<10 }
