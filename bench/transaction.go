package main

import (
	"context"
	"fmt"
	"time"

	"replicator/internal/servers"
)

// rarely is the time between two reads of a sink in the transaction stage. So few reads use hardly any CPU time.
const rarely = time.Second

// transaction measures the CPU time of single-row transactions: first of a writer alone, then with the program running,
// into an index table and into a Redis hash.
func (l *lab) transaction(ctx context.Context) error {
	if err := l.writerAlone(ctx); err != nil {
		return err
	}
	if err := l.transactionInto(ctx, "transaction", "an index table", l.sink, l.liveTable(rarely)); err != nil {
		return err
	}
	return l.withHashes(ctx, "transaction into Redis", func(store *hashes) error {
		hash := l.liveHash(store, func(v *live) watcher { return store.polled(v, rarely) })
		return l.transactionInto(ctx, "transaction-redis", "a Redis hash", store.server, hash)
	})
}

// writerAlone measures the transactions of a writer while no replicator runs. The bench writes, so its own CPU time
// counts as the client's.
func (l *lab) writerAlone(ctx context.Context) error {
	const source = liveDatabase + "alone"
	if err := create(ctx, l.sourceDB, source, cellDDL); err != nil {
		return err
	}
	v := newLive(l.options, source)
	v.begin = time.Now()
	what := fmt.Sprintf("%d transactions a second, without the program", l.rate)
	done := l.show.begin(what)
	took, err := l.measure(func() error { return v.writeAll(ctx, l.sourceDB) })
	done()
	if err != nil {
		return err
	}
	l.add(result{Stage: "writer", What: "the writer alone: " + what, Cells: v.total()}, took)
	return nil
}

// transactionInto measures single-row transactions with the program running. The result has no latency, because the
// readers read the sink too rarely to measure a latency.
func (l *lab) transactionInto(ctx context.Context, stage, into string, sink *servers.Server, part adding) error {
	if err := l.latencyInto(ctx, stage, into, sink, part); err != nil {
		return err
	}
	l.results[len(l.results)-1].Latency = nil
	return nil
}
