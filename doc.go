// Package replicator is the vocabulary of a program that follows a database's log of changes and keeps views of the
// newest rows in sinks: MySQL, Redis, Elasticsearch, Kafka. It imports only the standard library. It defines the types
// that the other packages exchange: cells, changes, ops, views, positions, and the interfaces Source, Reader, Sink,
// Target, Store and Evaluator.
//
// The engine is package pipeline. Sources (canal, kafka), bodies (codec), view definitions (view), sinks (sinks/…),
// stores (checkpoint) and `replicator init` (survey) are separate packages. They import this package and never each
// other. One exception: sinks also import config, for their settings, and sinks/judge, for code that they share.
// Package service combines all of them, and cmd/replicator is the command line.
//
// # One idea
//
// Every cell (the rows of one key) contributes to the views that it feeds: index entries, fields of a row or a
// document, an amount in a counter. A view consists only of the contributions of the newest rows. A sink does one
// thing: it replaces a cell's old contributions by newer ones. State.Next alone decides what is newer, and so makes
// every write idempotent.
//
// # Where to begin reading
//
// A Reader delivers Changes. A Target applies Ops. State.Next is the rule between two ops of one cell. An Order is a
// log position as a number. A Position can be saved: it holds the Order of a transaction's end, and whatever the source
// needs to resume there. A Standing is a view's progress: a Position of the tail (the reading of the log), and how far
// a fill (the first scan of the tables) has come. A Mark is a Standing that a sink keeps with the data; a Checkpoint
// is a Standing that the store keeps. OfView, OfTable and Fatal say which views an error concerns, and whether an
// operator must act.
package replicator
