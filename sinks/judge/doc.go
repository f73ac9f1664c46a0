// Package judge makes the decisions that are the same in every sink, whatever its server: which ops of a batch count,
// which of several rows provides a field, what is wrong with a view's contents, whether a view's mark (its progress, as
// the sink stores it) has fallen because the sink lost data. It talks to no server and stores nothing.
//
// A sink loads what it knows of a batch's cells (Known), and asks Batch.Judge about each value. It writes the results
// on the condition that no other process wrote meanwhile, and returns Batch.Applied. How it ensures that condition (a
// transaction with locks, a script that compares, a sequence number) depends on the server.
//
// # Invariants
//
//   - No sink calls replicator.State.Next itself: this package does.
//   - A value may be judged again, when a transaction is repeated or a race was lost: the last time counts.
//   - Nothing here is safe for concurrent use, except Marks, Lately and Novelty.
package judge
