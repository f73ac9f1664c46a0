// Package pipeline is the engine: it reads changes from a source's log, computes what they put into the views, applies
// the results to a sink, and saves positions. It uses sources, sinks and stores only by the interfaces of package
// replicator.
//
// # A row's path
//
//	Reader.Read ─► tail ─► intake ─► lane ─► writer: Evaluate, Apply ─► saver: low water, Target.Mark, Store.Save
//
// A Pipeline maintains the views of one sink from one source. Views that run together share a run: a reader, lanes, a
// memory budget, a position in the log. Pipelines share only the process, the source and the store. So a sink that is
// down, slow or full delays no other sink; a store that hangs delays all of them.
//
// The reader's goroutine hands changes to lanes (workers) by the hash of their key. A full memory budget blocks the
// reader. A lane keeps the newest pending change of each cell and has one batch in flight. When the batch returns, the
// lane takes the next one. Bodies are decoded after this coalescing. The position up to which all lanes have applied
// everything (the low water) is the applied position. Once an interval, the saver saves it in the sink, together with
// the data (a Mark), and then in the store. No other code saves positions while a session runs. While nothing is
// applied, the saver may save a later position in the store alone.
//
// # Who owns what
//
//   - The supervisor belongs to the goroutine of Pipeline.Run. With its parts it starts, ends, splits and joins runs
//     (composition) and carries out rebuilds (due, rebuilder, swapper). Requests of other goroutines (Pause, Rebuild,
//     …) are queued. A rebuild fills a shadow, which is a second copy of the view. A shadow that has caught up joins
//     the run of the live views, and is then swapped in.
//   - Data shared by all goroutines of a pipeline (runs, rebuilds, stopped, shown, …) is guarded by its own mutexes.
//   - A run is a set of views that share a reader. Its goroutine opens one session after another until the run is
//     ended. Its progress outlives sessions.
//   - A session lives until its first error (see Failure). It owns its goroutines and waits for them: the reader, the
//     fill, the comparison of dead letters with the sink's dead cells, the forgetter of deleted cells, the lanes, and
//     the saver.
//
// # Where a run begins
//
// The function `beginning` decides where each session of each run begins. It compares the last Mark that this process
// or the store remembers with the Mark that the sink has now, and begins the session at the lower one. A Mark includes
// the progress of a fill (see replicator.Standing). overtaken.go decides in which epoch of the log the session begins.
//
// Package canal decides which log a source has now, and whether a position was read from that log. Both may have
// changed after a restart, a failover, a RESET, or a restored backup: see "Resuming" in its documentation.
//
// # Failure
//
// Any error ends the session. Everything in memory is dropped, reader and target are opened again, and reading starts
// again from the last Mark. No change is lost, because no position beyond an unapplied change is saved. Changes may be
// applied twice, but that is harmless, because the sink compares every op with the cell's state.
//
// If the error came from reading the log, the session first applies and saves what was read, within Config.Drain.
// Without that, sessions would make no progress over a connection that often breaks.
//
// The next session opens after a pause. After a Fatal error (the operator must act), the pause is longer, and the view
// shows as "failed". If an error concerns one view (OfView) or one table (OfTable), its views are separated from the
// sink's other views. They run, fail and are retried separately, and join the other views when they have caught up.
package pipeline
