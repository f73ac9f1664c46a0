// Package changelog is the format in which a Kafka topic stores cells, for the code that writes it (sinks/kafka) and
// the code that reads it. docs/changelog-format.md describes it for users.
//
// A record says what one cell is from a position of the origin's log on: its newest row, or nothing, and its state (see
// replicator.State). All records of an entity are in one partition, in the order in which they count, because a record
// is only written if replicator.State.Next says that it replaces the previous one. So compaction, which keeps the last
// record of every key, keeps the newest.
package changelog
