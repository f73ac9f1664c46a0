// Package canal is the MySQL and MariaDB source: it follows a server's binlog like a replica does, and reads the tables
// it watches.
//
// # Promises
//
//   - Every committed change of a watched table is delivered, in the order of the binlog, with the row as it was then.
//     What can't be delivered so (a TRUNCATE, a statement logged as text, rows whose columns aren't known: layouts.go) is
//     told as ErrUnlogged, or is a Fatal error. Both name the table and FILE:POS: nothing is skipped in silence. What is
//     wrong with one table is marked as that table's (replicator.OfTable), and a reader of others does not meet it. A
//     column that only some views need is a matter of theirs (replicator.OfView, Table.Readers).
//   - A position is promoted only where a transaction ends. Traffic of other tables, rotations and heartbeats move it
//     too.
//   - An Order is the same on every replay of a binlog, and grows along it: see order.go.
//   - The server is only read: SELECT, REPLICATION SLAVE and REPLICATION CLIENT are enough. No read locks a row, but for
//     MySQL that lists nowhere what is being committed: see fence.go. Neither values nor the texts of statements reach
//     logs or errors (a MariaDB binlog holds clear passwords).
//   - Memory is bounded by one event of the binlog; compressed transactions are decoded as a stream.
//   - What one cell is the source's own columns say: values of the column role that the source takes for one are one
//     cell's (names.go), and so are rows whose keys it takes for one, of which the newest says how the key is spelt
//     (spelling.go). An ALTER that makes cells or versions others ends reading: identity.go.
//   - A value read by a scan equals the value of the same row in the binlog: package binlog and text.go obey one type
//     table (binlog.Kind), and texts in the binlog are converted by the server's own tables (binlog.Codes).
//
// # Resuming
//
// A position names the server, FILE:POS and the GTIDs of all before it. Reading always starts at a FILE:POS, never at a
// GTID set: the protocol would not notice a server that was set back. Which log a server has, and whether it is the one
// that a position was read from, is decided by one rule: see kinship, which has the table of what can happen to a
// server. On the same log reading goes on at the place. On another server whose GTIDs prove that it holds all that was
// read it starts at the file that holds the first missing transaction, what was applied is dropped, and Orders go on in
// a new epoch. In every other case Open fails, until somebody acts.
//
// A file may end within a transaction, if the server died while it wrote: torn.go.
//
// # Ownership and failure
//
// A Source owns a pool of SQL connections and starts no goroutines; it may be used by several pipelines. A Reader
// belongs to one pipeline; Read runs a replication connection of its own, in the goroutine that calls it, and has ended
// it on return (dump.go). Any error ends Read: the supervisor opens a new Reader at the marked position. ErrLost says
// that the binlog is gone; Fatal that a person must act; everything else is worth another try.
package canal
