// Package replicator keeps indexes and views of schemaless cells: it follows a source's log of changes and keeps what views
// say of the newest cells in sinks. This package is the vocabulary and the pipeline; it imports only the standard library.
// Sources (canal), bodies (codec), view definitions (view), sinks (sinks/…), stores (checkpoint) and the look at a new
// source (survey) stand in packages of their own that import this one and never each other. Only cmd/replicator brings them
// together.
//
// # One idea
//
// Every cell contributes to the views it feeds: index entries, fields of a row or a document, an amount in a counter. A view
// is nothing but the contributions of the newest cells. A sink does one thing: replace a cell's old contributions by its new
// ones, if those are newer. What is newer is decided in one place, State.Next; every write is idempotent because of it.
//
// # A row's way
//
//		Reader.Read ─► session.Change ─► lane.add ─► lane.flush: Evaluate ─► Target.Apply ─► low water ─► Target.Mark, Store.Save
//
//	  - A Pipeline owns the views of one sink that run together, for one source: a reader, lanes, a place in the log. Pipelines
//	    share nothing, so a sink that is down, slow or full delays no other.
//	  - The reader's goroutine hands changes to lanes by the hash of their key. A full memory budget blocks it.
//	  - A lane keeps the newest pending change of each cell and has one batch in flight: as soon as one returns the next is
//	    taken. Bodies are decoded after this coalescing.
//	  - The lowest place that all lanes have reached is the applied position. Once a second it is marked in the sink, then
//	    saved in the store. There is no other place that saves positions.
//
// # Where a run begins
//
// Every session of every run, however it came about, begins where the function beginning says: at the lowest of what was marked and
// what the sink's marks say that it holds. A mark is a Standing, and tells of a fill's progress, too.
//
// Which log a source has now, and whether it is the one that a position was read from (restart, failover, RESET, a restored
// backup), is one rule, too: see "Resuming" in package canal.
//
// # Failure
//
// Any error ends the pipeline's session: what is in memory is dropped, reader and target are opened anew, and reading starts
// again from the applied position. Loss is impossible, since nothing unapplied was saved; repetition is harmless, since
// every op is judged by the state in the sink. A Fatal error (somebody must act) waits longer and shows as "failed". An error of one
// view (OfView) or of one table (OfTable) parts it from the others of its sink: it runs, fails and is tried again by itself, and joins
// them when it has caught up.
package replicator
