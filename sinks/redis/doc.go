// Package redis keeps views in Redis or Valkey: in one server, in the master that sentinels name, or in a cluster.
//
// # What is stored
//
//	hash      a hash per key, a field per field; fields of other programs stay
//	json      a string per key, a JSON object with the fields in the view's order
//	index     a set per value, of the cells' keys or of the view's member; with Unique a string, the one that claims it
//	counter   a string, the sum in decimal digits
//	ranking   a sorted set; a score is the double nearest to the exact sum, 0 too: a member stays while a cell claims it
//
// Numbers have all their digits, binary values are hexadecimal digits as templates show them, lists and objects in a
// hash are JSON. Sums are exact decimals of any size (lib.lua, add); a counter of zero is removed. A hash that has none
// of the view's fields, and a set without members, do not exist.
//
// The sink's own keys begin with "replicator:". A configuration with a view whose keys may begin so, too, is refused:
//
//	replicator:entity::KEY         the entity's record: states and contributions of all its cells and all views, of all
//	                               sources (record)
//	replicator:marks:SOURCE        a hash: the mark of each view; 64 of them in a cluster, so that every node has one
//	replicator:sources             the set of sources
//	replicator:sum:{KEY}           beside a counter: the exact sum; beside a ranking: each member's and how many claim it
//	replicator:claims:{KEY}        beside a unique value, or a set of other members: how often each is claimed
//	replicator:registry            a hash: for each view, the position below which deleted cells may have been forgotten;
//	                               and the layouts, which are what many records have in common (registry.go, layout.go)
//	replicator:posts:{KEY}, replicator:gone:{KEY}:…   in a cluster: who contributes what to KEY, at which revision
//	replicator:checking, replicator:before   while sums are compared with the records: see audit.go
//
// # How a batch is applied
//
// The records of the batch's entities are read, and package judge decides which ops count. Then one script replaces
// each record and changes the keys of its contributions, if the record is unchanged since. Otherwise the script returns
// the current record, and the entity is decided again. Records that a small batch probably knows, because they were
// written lately or are probably new, are not read before: the script checks them. So the rule is in one place, in Go.
// No version is ever a Lua number, and any number of writers may work at once. On one server an entity's record and its
// keys change in one script, all views together. In a cluster they are in different slots: push.go has the steps that
// make up for it.
//
// The record contains each cell's last contribution, which can thus be removed without an image of the row before. This
// also holds for a view that was forgotten or redefined: its states no longer count, but its contributions are known,
// and are replaced, swept, or taken back (former.go). Contributions of another view in the record at the same key then
// stay (claimedByOthers). Contributions of a view that has ended stay until the operator removes them (leftover.go).
// Until then no other view is filled in its place.
//
// # Several sources
//
// All sources keep their cells in one record of the entity, each by a view id of its own (keeper.feedBy). If several
// shards have a row of one cell, judge.Batch.Claim decides whose row is shown. A cell that waits keeps its claims in
// the record, after a dead letter. The script that removes the other one's claims adds them (batch.promote).
// Contributions of a former source are removed by the fill of a view that was forgotten (vacate).
//
// # Failure
//
// A key of another type than the view's is left alone. The value is rejected, with the type that was found, and the
// rest is applied. If the entity was shown there before, the key is the view's, and the foreign value is removed
// (overwritten.go). Errors are temporary, except those that only the operator can fix (a password, a permission): see
// classify. No single request is repeated: the session begins again, and commands that were executed before count once,
// because the records say so. Redis may lose data by FLUSHALL, a restart without its data, or a failover to a replica
// that lagged behind. It then loses the marks, too, because they are written after the data. Mark returns ErrSinkLost,
// and Marks what is left. If only changes after the newest mark were lost, the server's name shows it, by its run_id
// and master_replid: see judge.Marks.
//
// Keys of a view with an expiry expire, while the records of their entities stay (expire.go).
//
// Records of deleted cells distinguish a late change from a new one. They are removed once they lie below their views'
// horizons, but not in a cluster (forget.go).
//
// # What is where
//
// redis.go Sink, New, Open · connect.go Config, the client · link.go connections that went silent · script.go calls of
// scripts · keeper.go a view, and the sink's own keys · claim.go a cell's contribution, and its stored form · record.go
// the full form of records · layout.go their compact form, and layouts · registry.go the registry · apply.go a batch ·
// plan.go its effects on an entity · change.go, merge.go on the entity's keys · expire.go keys that expire · forget.go
// deleted cells · write.go, msgpack.go the script call · overwritten.go keys of another type · mend.go own keys that
// were overwritten · push.go the steps in a cluster · posts.go their leftovers · posted.go sums in a cluster · slot.go
// which keys share a slot · memory.go records that need not be read · slab.go the memory of batches · marks.go marks
// and generations · walk.go pages of cells · former.go contributions by earlier definitions · leftover.go contributions
// of former views · compare.go the actual contents of keys · sums.go sums that may be wrong · audit.go sums that are ·
// stray.go orphans · value.go texts of values · check.go findings · permission.go missing permissions, and which view
// needs them · errors.go errors, without values.
//
// lib.lua precedes apply.lua, push.lua, posted.lua and sums.lua, which change users' keys. swap.lua replaces a record,
// marks.lua a mark.
//
// Decisions common to all sinks are in package judge.
package redis
