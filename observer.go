package replicator

import "time"

// Observer collects what pipelines do, for metrics. Its methods are quick and safe for concurrent use.
type Observer interface {
	Applied(view string, op string, n int)           // op: put or reset
	Stale(view string, n int)                        // ops older than what the view holds
	DeadLetter(view string, reason string)           // reason: row, evaluate or rejected
	Visible(view string, after time.Duration, n int) // from the source's commit until n changes were durable in the sink
	Scanned(view string, rows int)                   // rows of the source that a fill has passed
	Batch(sink string, ops int, took time.Duration)
	Retry(sink string) // a session ended by an error and begins again
}
