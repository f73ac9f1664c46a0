// Package sinktest is the conformance suite for sinks. One call, Run, tests a sink with random histories and against
// the contract of replicator.Sink and replicator.Target. NewReference is an in-memory sink that serves as the
// reference.
//
// # Histories
//
// A history has a source with a few cells that are inserted, updated and deleted at random, and replicators that follow
// it as a pipeline does. They coalesce changes, re-read after deletes, apply batches, crash between any two calls, and
// start again from an older position. Meanwhile scans put rows that they read long ago, batches of dead processes
// arrive late, and no replicator knows of the others. One thing never happens, because no pipeline does it: a
// replicator never reorders two changes of one cell. Everything depends on one seed, which a failure names:
//
//	go test ./sinks/NAME -run … -sinktest.seed=SEED      repeats one history
//	go test ./sinks/NAME -run … -sinktest.histories=N    runs N histories
//	REPLICATOR_SOAK=10m go test -timeout 0 ./sinks/NAME …  runs histories for 10 minutes in each test that calls Run
//	                                                       or RunHistories; `make soak` does it for all sinks
//
// Two things must hold:
//
//   - Convergence: when everything is applied, the target holds exactly what the newest remaining rows give.
//   - No step back: after each batch, a cell shows the source's state at some log position, and that position never
//     falls. There is one exception: a read of the source (a scan, or a re-read after a delete) may see changes after
//     its log position (Chunk.Low, Op.AsOf). The log delivers them later, so the cell may step back meanwhile. In half
//     of the histories, reads see no such changes. If Apply may be interrupted (Subject.Interrupted), only the end is
//     checked.
//
// # Contract
//
// The contract's steps check single calls of every method, also of replicator.Shadower, Tidier and Refresher if the
// sink has them. docs/sinks.md says what they do not cover. A step that changes a view's content by hand uses
// Subject.Plant and Subject.Remove. Without those, it is skipped.
//
// # Files
//
//	run.go, contract.go   Run; the fixture of a step, and the steps for Apply and Mark
//	dead.go, loss.go      dead letters; lost marks
//	cells.go, walk.go     cells of every view; the steps that read pages
//	compare.go, stray.go  comparing and repairing; entries that came from no cell
//	forget.go, shadow.go  refilled views; views that are rebuilt beside the live ones
//	history.go, replica.go, source.go   the histories
//	subject.go            the tested sink, and the model of its content
//	reference.go, memory.go   the in-memory sink, and its optional interfaces
package sinktest
