// Package sinktest is the conformance suite of sinks: one call, Run, tries a sink against random histories and against
// the contract of replicator.Sink and replicator.Target. NewReference is the sink in memory that shows what is meant.
//
// # Histories
//
// A history is a source of a few cells that are inserted, updated and deleted at random, and replicators that follow it
// as a pipeline does: they coalesce changes, look up deletes, apply batches, crash between any two calls and start
// again from an older place, while scans put what they read long ago, batches of dead processes arrive late, and each
// replicator knows nothing of the others. Only one thing is never done, because no pipeline does it: two changes of one
// cell are not reordered within one replicator. Everything is drawn from one seed, which a failure names:
//
//	go test ./sinks/NAME -run … -sinktest.seed=SEED      repeats one history
//	go test ./sinks/NAME -run … -sinktest.histories=N    so many
//	REPLICATOR_SOAK=10m go test -timeout 0 ./sinks/NAME …  as many as there is time for, at each call; `make soak`
//	                                                       does it for all
//
// Two things must hold:
//
//   - Convergence: when all is applied, the target holds the function of the newest remaining rows, and nothing else.
//   - No step back: what a cell shows after each batch is what the source held at some place, and that place never
//     falls. A read of the source (a scan, a look after a delete) may have seen more than it claims to: its rows count
//     from the place it claims (Chunk.Low, Op.AsOf). That is the one excuse, and half of the histories do without it. A
//     sink whose Apply is not one transaction is watched so while its calls succeed; where they are interrupted
//     (Subject.Interrupted), only the end counts.
//
// # Contract
//
// What a single call must do, one step each, of every method, and of those of replicator.Shadower, Tidier and Refresher
// where the sink has them. docs/sinks.md lists the steps, and what they do not cover. A step that changes what a view
// shows by hand asks the Subject to do so (Plant, Remove); without that it is skipped.
//
// # What is where
//
//	run.go, contract.go   Run; the fixture of a step, and the steps of Apply and Mark
//	dead.go, loss.go      dead letters; marks that fell
//	cells.go, walk.go     cells of every view; the steps that go through pages
//	compare.go, stray.go  comparing and repairing; what came from no cell
//	forget.go, shadow.go  views that are filled anew; those that are rebuilt beside the live ones
//	history.go, replica.go, source.go   the histories
//	subject.go            what is tested, and the model of what it should hold
//	reference.go, memory.go   the sink in memory, and what it does besides
package sinktest
