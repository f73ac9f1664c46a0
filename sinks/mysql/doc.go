// Package mysql keeps views in the tables of a MySQL or MariaDB database: indexes (one row a value), rows (one row a
// key) and counters (one row a group), in tables as their owner made them.
//
// # Promises
//
//   - All views of a cell change in one transaction, with what is remembered of the cell: an index and the row it leads
//     to never disagree, and what Apply returned is durable.
//   - What decides is replicator.State.Next (asked by package judge), on a state that is read under a lock: any number
//     of replicators may write.
//   - A value is stored as it is, or rejected with a reason that doesn't show it. The target's own column types say
//     what fits; they are read at Open, so a changed table needs a restart, or the retry that follows the server's
//     error.
//   - Only the view's columns are written. A row that somebody else put there for a key is replaced when the key's cell
//     changes; of an index that very many cells of the key feed, when an entry goes or a cell is repaired.
//   - Values are bound by the driver, names are quoted. Messages name sink, view, table and column, never a value.
//
// # Keys
//
// What is one key is what the source's column takes for one: its key columns' types and collations are asked for at
// Open, and a table that takes two of its keys for one is refused (collation.go). What a list's entries and a counter's
// groups are made of properties, the table's own collation tells apart.
//
// # Merged views
//
// Where several cells of one key feed a view (several feeds, or a feed of every column), each one's contribution is
// kept in its state, and the key's rows are made of all of them whenever one changes. Cells meet by their keys: the
// tables must have the same key columns, of the same kinds. A field of several values (tags[]) needs no such thing: one
// cell's rows are replaced together. Of an index and a key with very many cells only what differs is written
// (crowd.go).
//
// # Several sources
//
// Each source has states of its own. A batch reads those of the other shards that feed the sink, too, under the same
// locks, and judge.Batch.Claim says whose row a view shows (fellow.go). What a source put that feeds the sink no more
// doesn't count.
//
// # Counters
//
// A counter's table doesn't say who added what: that is kept in the states (a ledger), and a change takes the old
// amounts back and adds the new ones in one transaction. So a counter and its states begin together: where its view is
// registered anew (it is new or was forgotten, its definition changed, the states are gone), its table is emptied
// first, and targets opened before fail and are opened anew. A table that was changed by hand is not mended by repairs:
// verify finds it, and a rebuild, also one in place, puts it right. An amount that makes a sum too large for the column
// is rejected; one that can't be taken back any more (somebody else changed the table, or the column was made smaller)
// is an error that stops the sink's views until somebody acts.
//
// # Shards
//
// A Sharded is several Sinks, one a database, each of which keeps its own part of every contribution with its own
// states (docs/adr/0009): in shard i a view holds the entries whose ShardOn value leads to i (see column.shardOf).
// Every op goes to every shard that the view lives in, often with nothing but the version; a batch puts everywhere
// before it takes anything away. So an entry that moves is found in two shards for a moment, never in none, and each
// shard can be left behind by a crash. Views without ShardOn live in the first shard; where ShardOn is a key column, a
// key's rows live in one shard and have no states elsewhere. The shards' tables must be alike. Values that a collation
// takes for equal may lead to different shards.
//
// # What is stored
//
// Four tables of the sink's own lie in the database that the DSN names: replicator_views (ids and marks),
// replicator_state (one row a cell: see stateFormat), replicator_locks (a row for each of replicator.Partitions) and
// replicator_horizons (of each view, below which place what is gone may have been forgotten). Dropping one of the
// first three is noticed: the views are then filled anew.
//
// # How a batch is applied
//
// Values are converted first. Then, in one READ COMMITTED transaction of two round trips: lock the partitions of the
// batch's keys and read the states; judge each op for each view; where the digest of a contribution changed, delete the
// key's old rows and insert the new ones; write the states; commit. What is new is guessed and not asked for
// (novelty.go). What the server refuses is repeated without guesses and statement by statement, which shows whose it
// is. A deadlock repeats the transaction; a lock that is waited for in vain is an error, so that it shows. A row that
// the server refuses after all is found by splitting the batch, and is rejected alone; fault.go lists the errors that
// are no row's. A batch that is too much for the server is split, too. Statements share packets: a proxy between must
// let several statements through.
//
// # What is where
//
// mysql.go Config, New, Open · settings.go what a view and the sink are configured by · session.go connections and
// servers · query.go transactions and results · own.go the sink's own tables · shape.go a target's shape · unsteady.go
// keys that change by themselves · keeper.go a view in its table · index.go, row.go, counter.go the kinds · ledger.go,
// sums.go, stray.go what counters rest on · column.go, number.go, datetime.go, json.go conversion · collation.go which
// values are one · state.go, rows.go stored forms · apply.go, transaction.go, writer.go a batch · crowd.go keys with
// very many cells · novelty.go what is new · literal.go values in statements ·
// target.go versions · mark.go marks · shard.go the rule of shards · sharded.go, shardedtarget.go, shardedapply.go,
// shardedcompare.go, shardedcheck.go several databases · fresh.go tables that were empty · emptied.go tables that were
// dropped · loss.go tables that were emptied · altered.go tables that change · forget.go what is gone · walk.go what
// pages through cells and keys · sweep.go what a fill did not confirm · compare.go what a verify reads · shadow.go
// rebuilds beside the live table · foreign.go what they would lose · refit.go tables of earlier definitions · ddl.go,
// declare.go, design.go missing tables and their types · errors.go what servers say · fault.go what their errors
// concern · check.go what can be known before a start. What all sinks decide alike is in package judge.
package mysql
