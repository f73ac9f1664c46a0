package mysql

import "replicator"

// SetFewCells changes how many cells a key may have before it is a crowd.
func (s *Sink) SetFewCells(n int) { s.few = n }

// LookAtEachOpening has a sink look at a view's table whenever that was opened, however short ago it did.
func LookAtEachOpening(sink replicator.Sink) {
	switch sink := sink.(type) {
	case *Sink:
		sink.looks.every = 0
	case *Sharded:
		for _, shard := range sink.shards {
			shard.looks.every = 0
		}
	}
}
