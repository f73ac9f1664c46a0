// Package checkpoint keeps what a replicator must not forget: how far each view has come, and the dead letters.
//
// There are two stores, OpenFile (a directory) and OpenMySQL (three tables), with the same promises:
//
//   - Saved data is durable when the call returns. Save and Bury are all or nothing: after a crash either everything in
//     the call is there, or nothing counts as saved and the caller has not gone on.
//   - One replicator writes at a time. Opening takes a lock that ends with the process, however it ends. A second
//     process is told which one holds it (ErrLocked).
//   - Unreadable data is an error that says what to do, never an empty store: a store that forgets would fill every
//     view again, silently.
//   - A store that was written by a newer version is refused, not guessed at.
//
// ReadFile and ReadMySQL read a store while a replicator holds it; they have no methods that write.
//
// # Dead letters
//
// A dead letter's id is made of view and cell, so a letter that is recorded again replaces the earlier one. Memory
// holds the ids of all letters, never their rows. Most cells that are cleared have no letter, and then Raise does no
// I/O.
//
// # Failure
//
// The file store replaces checkpoints.json and layouts.json as a whole (a temporary file, synced, renamed) and appends
// to deadletters.jsonl. A crash may cut that log off: an incomplete last line was never acknowledged and is dropped.
// Any other malformed line is an error. If the disk is full, the log is cut back to its previous length.
//
// The MySQL store uses a single connection, which holds the lock. If it is lost, the current call fails. The lock is
// then taken again, unless another process has taken it meanwhile: see MySQL.Lost. So no write is ever made without the
// lock. The server ends the session of a process that gives no sign of life for three seconds, and its lock with it.
package checkpoint
