// Package changelog is the format in which a Kafka topic stores the newest row of every cell. sinks/kafka writes it,
// package kafka reads it, and docs/changelog-format.md describes it for users.
//
// A record contains the newest row of one cell, or no row, and the cell's state (see replicator.State). The last record
// of a cell counts, because a record is only written if replicator.State.Next says that it replaces the previous one.
// Compaction keeps the last record of every key, and so the newest.
package changelog
