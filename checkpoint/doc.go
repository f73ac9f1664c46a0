// Package checkpoint keeps what a replicator must not forget: how far each view has come, and the dead letters.
//
// There are two stores, OpenFile (a directory) and OpenMySQL (three tables), with the same promises:
//
//   - What a call saved is durable when it returns. Save and Bury are all or nothing: after a crash either all that the
//     call was given is there, or none of it counts as saved and the caller has not gone on.
//   - One replicator writes at a time. Opening takes a lock that ends with the process, however it ends; the second one
//     is told who holds it (ErrLocked).
//   - What can't be read is an error that says what to do, never an empty store: a store that forgets would fill every
//     view again, silently.
//   - A store that was written by a newer version is refused, not guessed at.
//
// ReadFile and ReadMySQL read a store while a replicator holds it; they have no methods that write.
//
// # Dead letters
//
// A dead letter's id is made of view and cell, so one that is buried again replaces the earlier one. Which letters
// exist is known in memory by id, never the rows themselves: most cells that are raised have none, and then Raise does
// no I/O.
//
// # Failure
//
// The file store replaces checkpoints.json and layouts.json as a whole (a temporary file, synced, renamed) and appends to
// deadletters.jsonl. The end of that log may be torn by a crash: an incomplete last line was never acknowledged and is
// dropped, anything else that is not well-formed is an error. If the disk is full the log is cut back to what it was
// before.
//
// The MySQL store does everything on the connection that holds the lock. If that is lost, the call at hand fails; the
// lock is then taken again, or was taken by another process meanwhile: see MySQL.Lost. So no write is ever made without
// the lock. The server ends the session of a process that gives no sign of life for three seconds, and its lock with
// it.
package checkpoint
