// Package changelog is the format in which a Kafka topic stores cells. sinks/kafka writes it, package kafka reads it.
// docs/changelog-format.md describes it for users.
//
// A record contains the newest row of one cell, or no row, and the cell's state (see replicator.State). It is valid
// from a log position of the source on, until a later record of the cell. All records of an entity are in one
// partition. A record is only written if replicator.State.Next says that it replaces the previous one, so a later
// record always counts more. Compaction keeps the last record of every key, and so the newest.
package changelog
