package replicator

import "time"

// Observer collects what pipelines do, for metrics. Its methods are quick and safe for concurrent use.
type Observer interface {
	Applied(view string, op string, n int)           // op: put or reset
	Stale(view string, n int)                        // ops older than what the view holds
	DeadLetter(view string, reason string)           // reason: row, evaluate or rejected
	Visible(view string, after time.Duration, n int) // n changes became durable; `after` is the time since their commit
	Scanned(view string, rows int)                   // rows of the source that a fill has scanned
	Batch(sink string, ops int, took time.Duration)
	Retry(sink string) // an error ended a session of the sink's pipeline; the next session begins soon
}
