// Package pipeline is the engine: it reads changes from a source's log, evaluates views, applies the results to a
// sink, and saves positions. It knows sources, sinks and stores by the interfaces of package replicator alone.
//
// # A row's path
//
//	Reader.Read ─► tail ─► intake ─► lane ─► writer: Evaluate, Apply ─► saver: low water, Target.Mark, Store.Save
//
// A Pipeline keeps the views of one sink, for one source. Those that run together share a run: a reader, lanes, a
// memory budget, a position in the log. Pipelines share the process, the source and the store alone, so a sink that is
// down, slow or full delays no other; a store that hangs holds up all of them.
//
// The reader's goroutine hands changes to lanes (intake.go) by the hash of their key. A full memory budget blocks it. A
// lane keeps the newest pending change of each cell and has one batch in flight: as soon as one returns the next is
// taken. Bodies are decoded after this coalescing. The place up to which all lanes have applied everything, the low
// water, is the applied position. Once an interval it is marked in the sink, then saved in the store, by the saver.
// Nothing else moves positions while a session runs. While nothing is applied the store may be saved without a mark.
//
// # Who owns what
//
//   - The supervisor belongs to the goroutine of Pipeline.Run. With its parts it makes, ends, parts and joins runs
//     (composition) and takes rebuilds through their life (due, rebuilder, swapper). What others ask of it (Pause,
//     Rebuild, …) is queued. Shadows that have caught up join the run of the live views before they are swapped in.
//   - What all goroutines of a pipeline share (runs, rebuilds, stopped, shown, …) has a mutex of its own.
//   - A run is a set of views that share a reader; its goroutine opens one session after another until it is ended. Its
//     progress outlives sessions.
//   - A session lives until its first error, which ends it as Failure says. It owns its goroutines (one reader, one
//     that fills, one that compares dead letters with the sink's, the lanes, one that asks for spellings of keys, the
//     saver) and waits for them.
//
// # Where a run begins
//
// Every session of every run, however it came about, begins where the function `beginning` says: at the lower of what
// this process or the store remembers as marked, and what the sink's marks are now. A mark is a Standing, and tells of
// a fill's progress, too. In which epoch it begins is in overtaken.go.
//
// Which log a source has now, and whether it is the one that a position was read from (restart, failover, RESET, a
// restored backup), is one rule, too: see "Resuming" in package canal.
//
// # Failure
//
// Any error ends the session: what is in memory is dropped, reader and target are opened anew, and reading starts again
// from what was marked. An error of reading, or of asking where the log ends, first lets what was read be applied,
// marked and saved, within the drain time of a stop: over a link that breaks before each interval is over, all sessions
// would else begin at one place. Loss is impossible, since nothing unapplied was saved; repetition is harmless, since
// every op is judged by the state in the sink. A Fatal error (somebody must act) waits longer and shows as "failed". An
// error of one view (OfView) or of one table (OfTable) parts it from the others of its sink: it runs, fails and is
// tried again by itself, and joins them when it has caught up.
package pipeline
