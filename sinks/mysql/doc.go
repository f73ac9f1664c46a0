// Package mysql keeps views in the tables of a MySQL or MariaDB database: indexes (one row per value), rows (one row
// per key) and counters (one row per group). The tables may be made by others.
//
// # Promises
//
//   - All views of a cell change in one transaction, together with the cell's state. An index and the row it leads to
//     never disagree, and everything that Apply returned is durable.
//   - replicator.State.Next decides (called by package judge), on a state that is read under a lock. So any number of
//     replicators may write.
//   - A value is stored unchanged, or rejected with a reason that doesn't show it. The target's own column types decide
//     what fits. They are read at Open, so a changed table needs a restart, or the retry that follows the server's
//     error.
//   - Only the view's columns are written. A row that another program put there for a key is replaced when the key's
//     cell changes. In an index that many cells of the key feed, it is replaced when an entry goes or a cell is
//     repaired.
//   - Values are bound by the driver, names are quoted. Messages name sink, view, table and column, never a value.
//
// A view shows keys as equal if the source's key columns do. Open reads their types and collations, and refuses a table
// that treats two different keys of the source as equal (collation.go). For properties, which make up lists' entries
// and counters' groups, the table's own collation decides.
//
// # Merged views
//
// If several cells of one key feed a view (several feeds, or a feed of every column), each cell's contribution is kept
// in its state. When one of them changes, the key's rows are made from all contributions. Cells meet by their keys, so
// the tables must have the same key columns, of the same kinds. A field of several values (tags[]) needs no merging:
// one cell's rows are replaced together. For an index and a key with very many cells, only differences are written
// (crowd.go).
//
// # Several sources
//
// Each source has states of its own. A batch also reads the states of the other shards that feed the sink, under the
// same locks. judge.Batch.Claim decides whose row a view shows (fellow.go). Entries of a source that no longer feeds
// the sink don't count.
//
// # Counters
//
// A counter's table doesn't show which cell added what. The states keep that (the ledger). A change subtracts the old
// amounts and adds the new ones in one transaction. So a counter and its states must begin together: when its view is
// registered again (it is new or was forgotten, its definition changed, or the states are gone), its table is emptied
// first. Targets that were opened before that fail, and are opened again. Re-reading a cell doesn't correct a table
// that another program changed: verify finds wrong sums, and `verify --repair` or a rebuild corrects them. An amount
// that makes a sum too large for the column is rejected. An amount that can no longer be subtracted (another program
// changed the table, or the column was made smaller) is an error that stops the sink's views until the operator acts.
//
// # Shards
//
// A Sharded is several Sinks, one per database. Each keeps its own part of every contribution with its own states
// (docs/adr/0009). Shard i holds the entries whose ShardOn value leads to i (see column.shardOf). Every op goes to
// every shard that the view lives in, often with only the version. A batch puts entries everywhere before it removes
// any. So an entry that moves is briefly found in two shards, but always in at least one, and a crash may leave any
// shard behind. Views without ShardOn live in the first shard. If ShardOn is a key column, a key's rows live in one
// shard and have no states elsewhere. The shards' tables must be alike. Values that a collation treats as equal may
// lead to different shards.
//
// # What is stored
//
// Four tables of the sink's own lie in the database that the DSN names: replicator_views (ids and marks),
// replicator_state (one row per cell: see stateFormat), replicator_locks (a row for each of replicator.Partitions) and
// replicator_horizons (for each view, the log position below which deleted cells may have been forgotten). Dropping one
// of the first three is noticed: the views are then filled again.
//
// # How a batch is applied
//
// Values are converted first. Then one READ COMMITTED transaction of two round trips locks the partitions of the
// batch's keys and reads the states; judges each op for each view; deletes the old rows of keys whose contribution's
// digest changed, and inserts the new ones; writes the states; and commits. New cells are guessed, without a query
// (novelty.go). If the server refuses something, the transaction is repeated without guesses and statement by
// statement, which shows the cause. A deadlock repeats the transaction. A lock timeout is an error, so that it becomes
// visible. A row that the server still refuses is found by splitting the batch, and is rejected alone; fault.go lists
// the errors that no row causes. A batch that is too large for the server is split, too. Statements share packets: a
// proxy in between must allow several statements.
//
// # What is where
//
// mysql.go Config, New, Open · settings.go settings of views and the sink · session.go connections and servers ·
// query.go transactions and results · own.go the sink's own tables · shape.go a target's shape · unsteady.go keys that
// change by themselves · keeper.go a view in its table · index.go, row.go, counter.go the kinds · ledger.go, sums.go,
// stray.go counters · column.go, number.go, datetime.go, json.go conversion · collation.go equality of values ·
// state.go, rows.go stored forms · apply.go, transaction.go, writer.go a batch · crowd.go keys with very many cells ·
// novelty.go new cells · literal.go values in statements · target.go versions · mark.go marks · shard.go the rule of
// shards · sharded.go, shardedtarget.go, shardedapply.go, shardedcompare.go, shardedcheck.go several databases ·
// fresh.go tables that were empty · emptied.go tables that were dropped · loss.go tables that were emptied · altered.go
// tables that change · forget.go deleted cells · walk.go paging through cells and keys · sweep.go entries that a fill
// did not confirm · compare.go reading for a verification · shadow.go rebuilds beside the live table · foreign.go what
// those would lose · refit.go tables of earlier definitions · ddl.go, declare.go, design.go missing tables and their
// types · errors.go, fault.go servers' errors · check.go checks before a start. Decisions common to all sinks are in
// package judge.
package mysql
