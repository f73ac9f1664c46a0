// Package kafka reads changelogs from Kafka: topics that hold at least the newest row of every cell (see
// internal/changelog, and docs/changelog-format.md). A publisher, which is a replicator with a Kafka sink, writes them.
//
// Each partition of a topic is a separate source. Its log positions are offsets: a Position's Order is the next offset
// to read. The Orders of rows and re-reads come from the origin, the database that the publisher reads. Records contain
// them. A fill reads the partition from its first record. The newest row of a cell is looked up in the records, too.
//
// Readers are read-committed: they never see records of an aborted transaction.
//
// # Marks of the publisher
//
// A publisher writes marks to every partition. A mark says how far the publisher has read the origin, and comes after
// all the data that it covers. So a position contains its offset, and also the origin's position up to which everything
// is included. Reader.Includes compares a fence in the origin's log with that origin position. Reader.Newest returns it
// as the position of a re-read.
//
// # Groups
//
// A Group is a membership in a consumer group. It says which partitions this process must read. Partitions move
// cooperatively: a member drains and saves a partition before another member gets it. Two members may still read one
// partition, if one of them hung for longer than its session timeout. The rule of State.Next makes that harmless.
package kafka
