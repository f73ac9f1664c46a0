// Package canal is the MySQL and MariaDB source: it follows a server's binlog like a replica does, and reads the tables
// it watches.
//
// # Promises
//
//   - Every committed change of a watched table is delivered, in the order of the binlog, with the row as it was then.
//     Any other change (a TRUNCATE, a statement logged as text, rows whose columns are unknown: layouts.go) is reported
//     as ErrUnlogged, or is a Fatal error. Both name the table and FILE:POS: nothing is skipped silently. A problem of
//     one table is marked as that table's (replicator.OfTable), and does not concern readers of other tables. A column
//     that only some views need concerns only those (replicator.OfView, Table.Readers).
//   - A position is promoted only where a transaction ends. Traffic of other tables, rotations and heartbeats move it
//     too.
//   - An Order is the same on every replay of a binlog, and grows along it: see order.go.
//   - The server is only read: SELECT, REPLICATION SLAVE and REPLICATION CLIENT are enough. No read locks a row, except
//     on a MySQL server that does not list transactions being committed: see fence.go. Neither values nor the texts of
//     statements reach logs or errors (a MariaDB binlog contains clear-text passwords).
//   - Memory is bounded by one event of the binlog; compressed transactions are decoded as a stream.
//   - The source's own columns define cells. Values of the column role that the source treats as equal belong to one
//     cell (names.go). So do rows whose keys it treats as equal, and the newest row decides which variant of the key is
//     shown (spelling.go). An ALTER that changes what cells or versions are ends reading: identity.go.
//   - A value read by a scan equals the value of the same row in the binlog. Package binlog and text.go use one type
//     table (binlog.Kind), and texts in the binlog are converted by the server's own tables (binlog.Codes).
//
// # Resuming
//
// A position names the server, FILE:POS and the GTIDs of everything before it. Reading always starts at a FILE:POS,
// never at a GTID set: the protocol would not notice a server that was set back. One rule decides which log a server
// has, and whether a position was read from it: see kinship, whose table lists everything that can happen to a server.
// On the same log, reading continues at the position. If another server's GTIDs prove that it has everything that was
// read, reading starts at the file with the first missing transaction, drops what was applied, and Orders continue in a
// new epoch. In every other case Open fails, until the operator acts.
//
// A file may end within a transaction, if the server died while it wrote: torn.go.
//
// # Ownership and failure
//
// A Source owns a pool of SQL connections and starts no goroutines; several pipelines may use it. A Reader belongs to
// one pipeline. Read runs a replication connection of its own, in the goroutine that calls it, and closes it before it
// returns (dump.go). Any error ends Read: the supervisor opens a new Reader at the marked position. ErrLost says that
// the binlog is gone; Fatal that the operator must act; every other error is worth another try.
package canal
