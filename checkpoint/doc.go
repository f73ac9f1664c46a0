// Package checkpoint stores how far each view has come, the dead letters, and the layouts of tables.
//
// There are two stores, OpenFile (a directory) and OpenMySQL (three tables), with the same promises:
//
//   - Saved data is durable when the call returns. Save is all or nothing: after a crash either all checkpoints of the
//     call are there, or none is, and the call has not returned success. After a crash during Bury, the file store may
//     have only the first letters of the call.
//   - One replicator writes at a time. Opening takes a lock that ends with the process, however the process ends. A
//     second process is told which one holds the lock (ErrLocked).
//   - Unreadable data is an error that says what to do. It never counts as an empty store, because the replicator would
//     then silently fill every view again.
//   - A store that a newer version wrote is refused, not guessed at.
//
// ReadFile and ReadMySQL read a store while a replicator holds its lock. They have no methods that write.
//
// # Dead letters
//
// A dead letter's id is made of view, source and cell, so a letter that is recorded again replaces the earlier one.
// Memory holds the ids of all letters, never their rows. Raise is called for many cells, most of which have no letter.
// For cells without letters it does no I/O.
//
// # Failure
//
// The file store replaces checkpoints.json and layouts.json as a whole (a temporary file, synced, renamed). It appends
// to deadletters.jsonl. A crash may cut off the last line of that log. Such a line was never reported as saved, and is
// dropped. Any other malformed line is an error. If the disk is full, the log is cut back to its previous length.
//
// The MySQL store uses a single connection, which holds the lock. If the connection is lost, the current call fails.
// Then the store takes the lock again, unless another process has taken it meanwhile: see MySQL.Lost. So it never
// writes without the lock. If a process sends nothing for three seconds, the server ends its session, and so its lock.
package checkpoint
