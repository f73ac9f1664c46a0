// Package kafka reads changelogs from Kafka: topics that hold, of every cell, at least the newest row (see
// internal/changelog, and docs/changelog-format.md for people).
//
// Each partition of a topic is a source of its own. Its places are offsets: a Position's Order is the offset that is
// read next, the Orders of rows and looks are those of the origin, which records carry. A fill reads the partition from
// its first record on. What a cell is now is looked up in the records themselves.
//
// Readers are read-committed: what a publisher wrote in a transaction that was aborted is never seen.
//
// # Marks of the publisher
//
// Behind all that it stands for, a publisher writes a mark to every partition: how far it has come with the origin. So
// a position knows, besides its offset, up to which place of the origin it includes everything. That is what a fence in
// the origin's log is compared with (Reader.Includes), and the place that a look stands at (Reader.Newest).
//
// # Groups
//
// A Group is a membership in a consumer group: it says which partitions are this process's to read. Partitions are
// handed on cooperatively: what one member is to give up it drains and saves before another is given it. Where two have
// one nevertheless (one stood still for longer than its session), the rule of replicator.State makes that harmless.
package kafka
