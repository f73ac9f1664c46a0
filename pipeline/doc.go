// Package pipeline is the engine: it reads changes from a source's log, evaluates views, applies the results to a sink,
// and saves positions. It uses sources, sinks and stores only by the interfaces of package replicator.
//
// # A row's path
//
//	Reader.Read ─► tail ─► intake ─► lane ─► writer: Evaluate, Apply ─► saver: low water, Target.Mark, Store.Save
//
// A Pipeline keeps the views of one sink, for one source. Views that run together share a run: a reader, lanes, a
// memory budget, a position in the log. Pipelines share only the process, the source and the store. So a sink that is
// down, slow or full delays no other sink; a store that hangs delays all of them.
//
// The reader's goroutine hands changes to lanes (intake.go) by the hash of their key. A full memory budget blocks it. A
// lane keeps the newest pending change of each cell and has one batch in flight. When the batch returns, the lane takes
// the next one. Bodies are decoded after this coalescing. The position up to which all lanes have applied everything,
// the low water, is the applied position. Once an interval, the saver marks it in the sink and then saves it in the
// store. Nothing else moves positions while a session runs. While nothing is applied, the store may be saved without a
// mark.
//
// # Who owns what
//
//   - The supervisor belongs to the goroutine of Pipeline.Run. With its parts it starts, ends, splits and joins runs
//     (composition) and carries out rebuilds (due, rebuilder, swapper). Requests of other goroutines (Pause, Rebuild,
//     …) are queued. Shadows that have caught up join the run of the live views before they are swapped in.
//   - Data shared by all goroutines of a pipeline (runs, rebuilds, stopped, shown, …) is guarded by its own mutexes.
//   - A run is a set of views that share a reader. Its goroutine opens one session after another until the run is
//     ended. Its progress outlives sessions.
//   - A session lives until its first error (see Failure). It owns its goroutines (one reader, one that fills, one that
//     compares dead letters with the sink's, the lanes, one that looks up variants of keys, the saver) and waits for
//     them.
//
// # Where a run begins
//
// The function `beginning` decides where every session of every run begins: at the lower of what this process or the
// store remembers as marked, and the sink's present marks. A mark is a Standing, which includes a fill's progress.
// overtaken.go decides the epoch.
//
// One rule also decides which log a source has now, and whether a position was read from it (after a restart, failover,
// RESET, or a restored backup): see "Resuming" in package canal.
//
// # Failure
//
// Any error ends the session. Everything in memory is dropped, reader and target are opened again, and reading starts
// again from what was marked. After an error of reading, or of asking where the log ends, the session first applies,
// marks and saves what was read, within the drain time of a stop. Otherwise a link that breaks before each interval
// ends would keep all sessions at one position. Loss is impossible, because nothing unapplied was saved. Repetition is
// harmless, because the state in the sink judges every op. After a Fatal error (the operator must act) the pause is
// longer, and the view shows as "failed". An error of one view (OfView) or of one table (OfTable) separates its views
// from the others of the sink: they run, fail and are retried separately, and join the others when they have caught up.
package pipeline
