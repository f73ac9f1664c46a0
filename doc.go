// Package replicator is the vocabulary of a program that follows a source's log of changes and maintains views of the
// newest cells in sinks. It imports only the standard library, and holds what the other packages say to each other:
// cells, changes, ops, views, positions, and the interfaces Source, Reader, Sink, Target, Store and Evaluator.
//
// The engine is package pipeline. Sources (canal, kafka), bodies (codec), view definitions (view), sinks (sinks/…),
// stores (checkpoint) and the survey of a new source (survey) live in packages of their own that import this one and
// never each other, except that each sink imports config, for its settings, and sinks/judge, for what sinks share.
// Package service makes them one program, and cmd/replicator is its command line.
//
// # One idea
//
// Every cell contributes to the views it feeds: index entries, fields of a row or a document, an amount in a counter. A
// view is nothing but the contributions of the newest cells. A sink does one thing: replace a cell's old contributions
// by its new ones, if those are newer. What is newer is decided in one place, State.Next; every write is idempotent
// because of it.
//
// # Where to begin reading
//
// A Change is what a Reader delivers; an Op is what a Target is given; State.Next is the rule between two ops of one
// cell. An Order is a place in the source's log as a number; a Position is one that can be saved: the Order of a
// transaction's end, and what the source needs to begin there. A Standing is how far a view has come (a position, and
// the progress of a fill); a Mark is a Standing that a sink keeps beside the data, a Checkpoint one that a store keeps.
// OfView, OfTable and Fatal say whom an error concerns, and whether a person must act.
package replicator
