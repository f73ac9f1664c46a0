// Package replicator is the vocabulary of a program that follows a source's log of changes and maintains views of the
// newest cells in sinks. It imports only the standard library. It defines the types that the other packages exchange:
// cells, changes, ops, views, positions, and the interfaces Source, Reader, Sink, Target, Store and Evaluator.
//
// The engine is package pipeline. Sources (canal, kafka), bodies (codec), view definitions (view), sinks (sinks/…),
// stores (checkpoint) and the survey of a new source (survey) live in packages of their own. They import this package
// and never each other. The one exception: each sink imports config, for its settings, and sinks/judge, for code that
// sinks share. Package service combines them into one program, and cmd/replicator is its command line.
//
// # One idea
//
// Every cell contributes to the views it feeds: index entries, fields of a row or a document, an amount in a counter. A
// view consists only of the contributions of the newest cells. A sink does one thing: it replaces a cell's old
// contributions by its new ones, if those are newer. State.Next alone decides what is newer, and makes every write
// idempotent.
//
// # Where to begin reading
//
// A Reader delivers Changes. A Target is given Ops. State.Next is the rule between two ops of one cell. An Order is a
// log position as a number. A Position can be saved: it holds the Order of a transaction's end, and whatever the source
// needs to begin there. A Standing is a view's progress: a position, and the progress of a fill. A Mark is a Standing
// that a sink keeps beside the data, a Checkpoint one that a store keeps. OfView, OfTable and Fatal say whom an error
// concerns, and whether an operator must act.
package replicator
