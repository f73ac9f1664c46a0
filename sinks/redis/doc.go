// Package redis keeps views in Redis or Valkey: in one server, in the master that sentinels name, or in a cluster.
//
// # What is stored
//
//	hash      a hash per key, a field per field; fields that somebody else put into it stay
//	json      a string per key, a JSON object with the fields in the view's order
//	index     a set per value, of the cells' keys or of the view's member; with Unique a string, one that claims it
//	counter   a string, the sum in decimal digits
//	ranking   a sorted set; a score is the double nearest to the exact sum, 0 too: a member stays while a cell claims it
//
// Numbers have all their digits, binary values are hexadecimal digits as templates show them, lists and objects in a
// hash are JSON. Sums are exact decimals of any size (lib.lua, add); a counter of zero is removed. A hash that has none
// of the view's fields, and a set without members, do not exist.
//
// The sink's own keys begin with "replicator:". A file with a view whose key may do so, too, is refused:
//
//	replicator:entity::KEY         the entity's record: states and contributions of all its cells and all views, of all
//	                               sources (record)
//	replicator:marks:SOURCE        a hash: the mark of each view; 64 of them in a cluster, so that every node has one
//	replicator:sources             the set of sources
//	replicator:sum:{KEY}           beside a counter: the exact sum; beside a ranking: each member's and how many claim it
//	replicator:claims:{KEY}        beside a unique value, or a set of other members: how often each is claimed
//	replicator:horizons            a hash: of each view, below which place what is gone may have been forgotten
//	replicator:posts:{KEY}, replicator:gone:{KEY}:…   in a cluster: who contributes what to KEY, at which revision
//	replicator:checking, replicator:before   while sums are compared with the records: see audit.go
//
// # How a batch is applied
//
// The records of the batch's entities are read, package judge says which ops count, and one script replaces each record
// and changes what its contributions say, if the record is still the one that was decided on; else the script answers
// with what stands there, and the entity is decided again. What a small batch wrote lately, and what is probably new,
// is not read before: the script finds out. So the rule is in Go and stands in one place, no version is ever a Lua
// number, and any number of writers may work at once. On one server an entity's record and its keys change in one
// script, all views together. In a cluster they live in different slots: see push.go for the steps that make up for it.
//
// The record says what a cell contributed last, so that is taken back without an image of the row before. It does so
// for a view that was forgotten or redefined, too: its states no longer count, but what it shows is known, and
// replaced or swept, or taken back (former.go). What another view of the record shows at the same key stays then
// (claimedByOthers). What a view showed that has ended stays until a person removes it (leftover.go): until then no
// other view is filled in its place.
//
// # Several sources
//
// All sources keep their cells in one record of the entity, each by a view id of its own (keeper.feedBy). Where several
// shards have a row of one cell, judge.Batch.Claim says whose is shown. A cell that waits keeps its claims in the record,
// behind a dead letter, and the script that takes the other one's away adds them (batch.promote). What a source put
// there that is none any more goes with the fill of a view that was forgotten (vacate).
//
// # Failure
//
// A key that holds another type than the view's is left alone: the value is rejected, with the type that was found, and
// the rest applied. Where the entity was shown there before, the key is the view's, and what somebody put in its place
// goes (overwritten.go). Errors are temporary, but for those that only a person can mend (a password, a permission):
// see classify. No request is repeated by itself: the session begins anew, and what was done before counts once,
// because the records say so. What Redis loses, by FLUSHALL, a restart without its data, or a failover to a replica
// that had not got everything, takes the marks with it, which are written after the data: Mark then says ErrSinkLost,
// and Marks what is left. Where only what came after the newest mark was lost, the server's name tells, by its run_id
// and master_replid: see judge.Marks.
//
// Keys of a view with an expiry go by themselves, and what is remembered of their entities stays (expire.go).
//
// Records of cells that are gone tell a late change from a new one. They go once they lie below their views' horizons,
// but not in a cluster (forget.go).
//
// # What is where
//
// redis.go Sink, New, Open · connect.go Config, the client · link.go connections that went silent · script.go calls of
// scripts · keeper.go a view, and the sink's own keys · claim.go what a cell contributes, and its stored form ·
// record.go the stored form of records · apply.go a batch · plan.go what it does to an entity · change.go, merge.go to
// its keys · expire.go keys that go by themselves · forget.go what is gone · write.go, msgpack.go the call that does so
// · overwritten.go keys of another type · mend.go what somebody wrote to · push.go the steps in a cluster · posts.go
// what they left behind · posted.go sums in a cluster · slot.go which keys share a slot · memory.go records that need
// not be read · slab.go the memory of batches · marks.go marks and generations · walk.go pages of cells · former.go
// what earlier definitions put there · leftover.go what views showed that have ended · compare.go what keys really hold
// · sums.go sums that may be wrong · audit.go those that are · stray.go what came from no cell · value.go texts of
// values · check.go findings · permission.go what the user may not do, and which view lacks it · errors.go what failed,
// said without values.
//
// lib.lua stands before apply.lua, push.lua, posted.lua and sums.lua, which change users' keys; swap.lua replaces a
// record, marks.lua a mark.
//
// What every sink decides alike is in package judge.
package redis
