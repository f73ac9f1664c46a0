// Package judge is what every sink decides in the same way, whatever its server: which ops of a batch count, in which
// order cells that share a key give their fields, what is wrong with what a view holds, which cells a fill did not
// confirm, whether a mark fell, what need not be read because it was written lately or is probably new. It talks to no
// server and stores nothing.
//
// A sink brings what is its own: it loads what is known of a batch's cells (Known), asks Batch.Judge about each value,
// writes what that says on the condition that nobody else wrote meanwhile, and returns Batch.Applied. How it makes sure
// of that condition (a transaction with locks, a script that compares, a sequence number) and what it does when it
// fails stays with the sink, since there the servers have nothing in common.
//
// # Invariants
//
//   - replicator.State.Next is asked here and nowhere else.
//   - A value may be judged again, as a transaction is repeated or a race was lost: the last time counts.
//   - Nothing here is safe for concurrent use, but Marks, Lately and Novelty.
package judge
