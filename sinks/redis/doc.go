// Package redis keeps views in Redis or Valkey: in one server, in the master that sentinels name, or in a cluster. A
// view consists of what cells contribute. A cell is the rows of one key, or those with one value of a chosen column.
// All cells of a key are an entity.
//
// # What is stored
//
//	hash      a hash per key, with the view's fields; fields of other programs stay
//	json      a string per key, a JSON object with the fields in the view's order
//	index     a set per value, with the keys of the entities that have the value, or with the view's members; with
//	          Unique, a string per value, which is one of the members that the set would have
//	counter   a string, the sum in decimal digits
//	ranking   a sorted set; a score is the double nearest to the exact sum; a member stays while a cell contributes to
//	          it, even with a score of 0
//
// Numbers keep all their digits. Binary values are hexadecimal digits, as in templates. Lists and objects in a hash are
// JSON. Sums are exact decimals of any size (add in lib.lua). A counter of zero is removed. Redis has no empty hashes
// and no empty sets.
//
// The sink's own keys begin with "replicator:". The configuration refuses a view whose key template can make such keys.
// Several of them belong to a user's key {KEY}, and are called the sink's keys beside {KEY}:
//
//	replicator:entity::KEY         the entity's record: states and contributions of all its cells, in all views, from
//	                               all sources (record)
//	replicator:marks:SOURCE        a hash: the mark (progress) of each view; in a cluster 64 copies, so that every node
//	                               has one
//	replicator:sources             the set of sources
//	replicator:sum:{KEY}           beside a counter: the exact sum; beside a ranking: of each member, the exact
//	                               sum and the number of contributions
//	replicator:claims:{KEY}        beside a unique value, or a set of the view's members: how often each member is
//	                               contributed
//	replicator:registry            a hash: for each view, the horizon, a log position below which states of deleted
//	                               cells may have been removed; and the layouts, which are the common parts of records
//	                               (registry.go, layout.go)
//	replicator:posts:{KEY}         in a cluster: what each entity contributes to KEY, with the revision of its record
//	replicator:gone:{KEY}:…        in a cluster: the revision at which an entity's contribution to KEY was removed
//	replicator:checking, replicator:before   while sums are compared with the records: see audit.go
//
// # How a batch is applied
//
// The sink reads the records of the batch's entities, and package judge decides which ops count. Then one script
// replaces each record, and changes the keys that it contributes to, if the record is unchanged since. Otherwise the
// script returns the current record, and the ops are judged again. If a record was written lately, or is probably
// new, a small batch does not read it first: the script checks the assumption (memory.go). So only Go code decides what
// counts, no version is ever a Lua number, and any number of writers may work at once. In a cluster, an entity's record
// and its keys are in different slots, so the change takes several steps (push.go).
//
// The record contains each cell's last contribution, so the sink can remove it without the row's former values. This
// also holds for a view that was forgotten or redefined. Its states no longer count, but its contributions are known:
// they are replaced, or removed before or after the next fill (former.go). Contributions of a view that is no longer
// configured stay until the operator removes them (leftover.go). Until then no other view is filled at its keys.
//
// # Several sources
//
// An entity has one record for all sources. Each source has its own view ids in it (keeper.feedBy). If several shards
// have a row of one cell, judge.Batch.Claim decides which row is shown. Any other row waits: its cell is a dead letter
// in the record, which also has what the cell would contribute. The step that removes the shown row's contributions
// also adds the waiting ones (batch.promote).
//
// # Failure
//
// If another program wrote a value of another type to a view's key, the records tell whether the key showed the entity
// before. If it did, the program's value is removed (overwritten.go). Otherwise that value stays, the view's value is
// rejected with the type that was found, and the rest is applied.
//
// Errors are temporary, except those that only the operator can fix (a password, a permission): see classify. After an
// error, the session begins again. Commands that the server already executed count only once, because the records show
// them.
//
// Redis may lose data by FLUSHALL, a restart without its data, or a failover to a replica that lagged behind. It then
// loses the marks, too, because they are written after the data. Mark returns ErrSinkLost, and Marks returns the marks
// that are left. If only changes after the newest mark were lost, the server's name (run_id and master_replid) reveals
// the loss: see judge.Marks.
//
// Keys of a view with an expiry expire, while the records of their entities stay (expire.go). States of deleted cells
// distinguish a late change from a new one. They are removed below their views' horizons, but not in a cluster
// (forget.go).
//
// # What is where
//
// redis.go Sink, New, Open; settings.go configuration; connect.go Config, the client; link.go connections that went
// silent; script.go calls of scripts; keeper.go a view, and the sink's own keys; claim.go a cell's contribution, and
// its stored form; record.go the full form of records; layout.go their compact form, and layouts; registry.go the
// registry; apply.go a batch; plan.go its effects on an entity; change.go, merge.go its effects on the entity's keys;
// expire.go keys that expire; forget.go deleted cells; write.go, msgpack.go the script call; overwritten.go keys of
// another type; mend.go own keys that were overwritten; evictions.go keys that the server evicted; push.go the steps in
// a cluster; posts.go their leftovers; posted.go sums in a cluster; slot.go which keys share a slot; memory.go records
// that need not be read; slab.go the memory of batches; marks.go marks, and generations (numbers of definitions);
// walk.go pages of cells; list.go the cells behind a value; former.go contributions by earlier definitions; leftover.go
// contributions of former views; compare.go the actual contents of keys; sums.go sums that may be wrong; audit.go sums
// that are wrong; stray.go orphans; value.go texts of values; check.go findings; permission.go missing permissions, and
// which view needs them; errors.go errors, without values.
//
// lib.lua precedes apply.lua, push.lua, posted.lua and sums.lua, which change users' keys. swap.lua replaces a record
// in a cluster, forget.lua replaces records on one server, marks.lua replaces marks and changes the registry.
//
// Decisions common to all sinks are in package judge.
package redis
