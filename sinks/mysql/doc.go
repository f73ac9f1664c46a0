// Package mysql keeps views in the tables of a MySQL or MariaDB database: indexes (one row per value), rows (one row
// per key) and counters (one row per group). The program can create these tables, or use tables that already exist.
//
// # Promises
//
//   - All views of a cell change in one transaction, together with the cell's state. An index and the row it leads to
//     never disagree, and everything that Apply returned is durable.
//   - replicator.State.Next, which package judge calls, decides whether a change applies. It gets a state that was read
//     under a lock, so any number of replicators may write at once.
//   - A value is stored unchanged, or rejected with a reason that doesn't quote it. The types of the target's columns
//     decide whether a value fits. Open reads them, so a changed table must be opened again.
//   - Only the view's columns are written. A row that another program added for a key is replaced when the key's
//     cell changes. In an index that many cells of the key feed, it is replaced when an entry of the key is removed or
//     a cell is repaired.
//   - Values are bound by the driver or written as literals (literal.go), and names are quoted. Messages name sink,
//     view, table and column, never a value.
//
// Two keys are equal in a view if the source's key columns treat them as equal. Open reads these columns' types and
// collations. It refuses a table that treats two different keys of the source as equal (collation.go). Index values and
// counters' groups may be properties of a body. For properties, the table's own collation decides what is equal.
//
// # Merged views
//
// If several cells of one key feed a view (several feeds, or a feed of every column), each cell's contribution is kept
// in its state. When one of them changes, the key's rows are made from all contributions. Cells are matched by their
// keys, so the tables that feed the view must have the same key columns, of the same kinds. A field of several values
// (tags[]) needs no merging, because one cell's rows are replaced together. For an index and a key with very many
// cells, only differences are written (crowd.go).
//
// # Several sources
//
// Each source has its own states. A batch also reads the states of the other source shards that feed the sink, under
// the same locks. judge.Batch.Claim decides which source's row a view shows (fellow.go). Entries of a source that no
// longer feeds the sink don't count.
//
// # Counters
//
// A counter's table doesn't show which cell added what. The states record that (the ledger). A change subtracts the old
// amounts and adds the new ones in one transaction. So a counter and its states must begin together. The table is
// emptied when the first source registers the view: when the view is new or was forgotten, when its definition changed,
// or when the states are gone. Targets that were opened earlier then return an error, and the caller opens them again.
//
// Re-reading a cell doesn't correct a table that another program changed. `verify` finds wrong sums, and `verify
// --repair` or a rebuild corrects them. An amount that makes a sum too large for the column is rejected. An amount may
// be impossible to subtract, because another program changed the table or the column was made smaller. That is an error
// that stops the sink's views until the operator acts.
//
// # Shards
//
// A Sharded is several Sinks, one per database. Each keeps its own part of every contribution, with its own states
// (docs/adr/0009). Shard i holds the entries whose ShardOn value maps to i (see column.shardOf). Every op goes to every
// shard of the view. A shard that gets none of the op's entries stores only the version. A batch puts entries
// everywhere before it removes any. So an entry that moves is briefly in two shards, but always in at least one. After
// a crash, any shard may be behind the others.
//
// Views without ShardOn live in the first shard. If ShardOn is a key column, a key's rows live in one shard, and the
// other shards have no states of the key. The shards' tables must be alike. Values that a collation treats as equal may
// belong to different shards.
//
// # What is stored
//
// The sink creates four tables in the database that the DSN names: replicator_views (ids and marks), replicator_state
// (one row per cell: see stateFormat), replicator_locks (a row for each of replicator.Partitions) and
// replicator_horizons (for each view, the log position below which deleted cells may have been forgotten). If one of
// the first three is dropped, the sink notices, and the views are filled again.
//
// # How a batch is applied
//
// Values are converted first. Then one READ COMMITTED transaction of two round trips locks the partitions of the
// batch's keys and reads the states; judges each op for each view; deletes the old rows of keys whose contribution's
// digest changed, and inserts the new ones; writes the states; and commits. The batch guesses which cells are new, to
// avoid reading their states (novelty.go).
//
// If the server refuses a statement, the transaction is repeated without guesses and statement by statement, which
// shows the cause. A deadlock repeats the transaction. A lock timeout is an error, so that the operator sees it. If the
// server still refuses a row, the batch is split until that row is alone, and the row is rejected. fault.go lists the
// errors that no row causes. A batch that is too large for the server is split, too. One request may contain several
// statements, so a proxy in between must allow that.
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
// did not confirm · compare.go reading for a verification · shadow.go rebuilds beside the live table · foreign.go parts
// of a table that a swap would lose · refit.go tables of earlier definitions · ddl.go, declare.go, design.go missing
// tables and their types · errors.go, fault.go servers' errors · check.go checks before a start. Decisions common to
// all sinks are in package judge.
package mysql
