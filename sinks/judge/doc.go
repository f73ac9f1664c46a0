// Package judge makes the decisions that are the same in every sink, whatever its server: which ops of a batch count,
// in which order cells that share a key provide fields, what is wrong with a view's content, which cells a fill did not
// confirm, whether a mark fell, and what need not be read because it was written lately or is probably new. It talks to
// no server and stores nothing.
//
// A sink does the rest. It loads the known states of a batch's cells (Known), and asks Batch.Judge about each value. It
// writes the results on the condition that no other process wrote meanwhile, and returns Batch.Applied. How it ensures
// that condition (a transaction with locks, a script that compares, a sequence number), and what it does when it fails,
// depends on the server.
//
// # Invariants
//
//   - No sink calls replicator.State.Next itself: this package does.
//   - A value may be judged again, when a transaction is repeated or a race was lost: the last time counts.
//   - Nothing here is safe for concurrent use, except Marks, Lately and Novelty.
package judge
