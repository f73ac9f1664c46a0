// Package pipeline is the engine: it takes the changes that a source's log tells, has views evaluated, applies the
// outcome to a sink, and saves positions. It knows sources, sinks and stores by the interfaces of package replicator
// alone.
//
// # A row's way
//
//	Reader.Read ─► tail, intake ─► lane ─► writer: Evaluate, Target.Apply ─► saver: low water, Target.Mark, Store.Save
//
// A Pipeline owns the views of one sink that run together, for one source: a reader, lanes, a position in the log.
// Pipelines share nothing, so a sink that is down, slow or full delays no other.
//
// The reader's goroutine hands changes to lanes by the hash of their key. A full memory budget blocks it. A lane keeps
// the newest pending change of each cell and has one batch in flight: as soon as one returns the next is taken. Bodies
// are decoded after this coalescing. The lowest position that all lanes have reached is the applied position. Once a
// second it is marked in the sink, then saved in the store. There is no other place that saves positions.
//
// # Who owns what
//
//   - The supervisor belongs to the goroutine of Pipeline.Run. With its parts it makes, ends, parts and joins runs
//     (composition) and takes rebuilds through their life (due, rebuilder, swapper). What others ask of it (Pause,
//     Rebuild, …) is queued.
//   - What all goroutines of a pipeline share (runs, rebuilds, stopped, shown, …) guards itself.
//   - A run is a set of views that share a reader; its goroutine opens one session after another until it is ended. How
//     far its views are outlives sessions (group).
//   - A session lives until its first error. It owns its goroutines (one reader, one that fills, one that checks dead
//     letters, the lanes, one that advances the checkpoint) and waits for them.
//
// # Where a run begins
//
// Every session of every run, however it came about, begins where the function beginning says: at the lowest of what
// was marked and what the sink's marks say that it holds. A mark is a Standing, and tells of a fill's progress, too.
//
// Which log a source has now, and whether it is the one that a position was read from (restart, failover, RESET, a
// restored backup), is one rule, too: see "Resuming" in package canal.
//
// # Failure
//
// Any error ends the session: what is in memory is dropped, reader and target are opened anew, and reading starts again
// from the applied position. Loss is impossible, since nothing unapplied was saved; repetition is harmless, since every
// op is judged by the state in the sink. A Fatal error (somebody must act) waits longer and shows as "failed". An error
// of one view (OfView) or of one table (OfTable) parts it from the others of its sink: it runs, fails and is tried
// again by itself, and joins them when it has caught up.
package pipeline
