package elastic

import (
	"sync/atomic"
	"time"
)

// An answer that holds documents should stay below both: all of it is in memory, here and at the node that makes it,
// and to make it Elasticsearch unpacks each document as a whole, also where little of it is asked for. Nobody knows how
// large a document is before it was read.
const (
	answerBytes = 8 << 20
	answerTime  = time.Second
)

const (
	fewDocuments = 20   // whose states are asked for while nothing is known
	readItems    = 1000 // at most
)

// mostAnswer is where an answer is given up that holds several documents: fewer are asked for then.
const mostAnswer = 4 * answerBytes

// paced is how many documents to ask for where it was n until now, after some made an answer of so many bytes that took
// so long. Where documents are large there is no least number; where the cluster is only slow, there is.
func paced(n, answered, bytes int, took time.Duration) int {
	switch {
	case bytes > answerBytes:
		return max(answered*answerBytes/bytes, 1)
	case took > answerTime:
		return min(n, max(answered/2, fewDocuments))
	case bytes < answerBytes/2 && took < answerTime/2:
		return max(n, min(2*answered, readItems))
	}
	return n
}

// pace is how many documents are asked for at once, by how it went lately. It is safe for concurrent use: of several
// that learn at a time one counts.
type pace struct{ n atomic.Int64 }

func (p *pace) documents() int {
	if n := p.n.Load(); n > 0 {
		return int(n)
	}
	return fewDocuments
}

func (p *pace) learn(answered, bytes int, took time.Duration) {
	p.n.Store(int64(paced(p.documents(), answered, bytes, took)))
}

// sizes is how large documents of a view are that were read, on average over some hundred. It is safe for concurrent
// use, as pace is.
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

// raise notes that documents turned out to be at least so large.
func (s *sizes) raise(bytes int) { s.mean.Store(max(s.mean.Load(), int64(bytes))) }

// expected is how large a document is probably.
func (s *sizes) expected() int {
	const unknown = 1 << 20
	if mean := s.mean.Load(); mean > 0 {
		return int(mean)
	}
	return unknown
}

// large reports whether documents are so large that to send them costs more than to cut out their states: where these
// decide alone, the documents are not read whole any more, and so this stays.
func (s *sizes) large() bool { return s.mean.Load() > 64<<10 }
