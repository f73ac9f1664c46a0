// Package canal is the MySQL and MariaDB source. Like a replica, it follows a server's binlog. It also reads the
// watched tables.
//
// # Promises
//
//   - Every committed change of a watched table is delivered, in the order of the binlog, with the row as it was then.
//     Some changes can't be delivered: a TRUNCATE, a statement logged as text, or rows whose columns are unknown
//     (layouts.go). They are reported as ErrUnlogged or as a Fatal error. Both name the table and FILE:POS, so nothing
//     is skipped silently. A problem of one table is marked with replicator.OfTable, so that other tables can still be
//     read. A problem of a column that only some views use is marked with replicator.OfView (Table.Readers).
//   - The position advances only at the end of a transaction. Transactions of other tables, new binlog files and
//     heartbeats advance it, too.
//   - An Order (a log position as a number) is the same on every replay of a binlog, and grows along it: see order.go.
//   - The server is only read: SELECT, REPLICATION SLAVE and REPLICATION CLIENT are enough. No read locks a row, except
//     on a MySQL server that does not list transactions being committed: see fence.go. Neither values nor the texts of
//     statements reach logs or errors (a MariaDB binlog contains clear-text passwords).
//   - The binlog's largest event limits memory use, because compressed transactions are decoded as a stream.
//   - The source's collations define cells. Values of the column role that the source treats as equal belong to one
//     cell (names.go). So do rows whose keys it treats as equal; the newest row decides which variant of the key is
//     shown (spelling.go). Reading ends at an ALTER that redefines cells or versions: identity.go.
//   - A value read by a scan equals the value of the same row in the binlog. Package binlog and text.go share one table
//     of types (binlog.Kind). The server's own tables convert texts of the binlog to UTF-8 (binlog.Codes).
//
// # Resuming
//
// A position names the server, FILE:POS, and the GTIDs of everything before it. Reading always starts at a FILE:POS,
// never at a GTID set. Given a GTID set, a server may hide that it lacks some of these transactions. resolver.judge
// decides which log a server has, and whether a position was read from it. The comment of type kinship lists everything
// that can happen to a server. On the same log, reading continues at the position. If the GTIDs of another server prove
// that it has everything that was read, reading starts there, at the file with the first missing transaction. It skips
// the transactions that were applied already, and Orders continue in a new epoch. In every other case Open fails until
// the operator acts.
//
// A file may end within a transaction, if the server died while writing it: torn.go.
//
// # Ownership and failure
//
// A Source owns a pool of SQL connections and starts no goroutines; several pipelines may use it. A Reader belongs to
// one pipeline. Read opens a replication connection, uses it in the goroutine that calls Read, and closes it before it
// returns (dump.go). Any error ends Read; the pipeline then opens a new Reader at the position up to which sinks have
// everything. ErrLost means that the binlog is gone. A Fatal error means that the operator must act. After any other
// error, a retry may succeed.
package canal
