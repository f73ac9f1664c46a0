// Package changelog is the form in which cells stand in a Kafka topic, for whoever writes it (sinks/kafka) and whoever
// reads it: docs/changelog-format.md describes it for people.
//
// A record is what one cell is at a place of the origin's log: its newest row, or nothing, with the state (see
// replicator.State) that it has from then on. Records of one entity are in one partition, in the order in which they
// count: a record is only written if replicator.State.Next says that it replaces the one before. So compaction, which
// keeps the last record of every key, keeps the newest.
package changelog
