// Package kafka is the sink for Kafka: views of kind changelog, the newest row of every cell in a compacted topic.
//
// docs/changelog-format.md describes a topic's content, docs/kafka.md the setup, and ADR 15 the reasons for the design.
//
// # How a cell is written
//
// A cell's state (see replicator.State) is in its newest record. The sink keeps a table of the newest records on disk
// (changelog.Table), which it updates when a view is opened. It judges every op by the table, and appends only changes
// that count. Compaction keeps the last record of a key, so a stale record at the end would replace the newest one.
//
// Kafka ensures that no other process appends between the judgement and the append. Each view and source has a producer
// with its own transactional id. A publisher that opens the view takes the id over. Kafka then ends the older
// publisher's transaction and fences that publisher: its next transaction fails with replicator.ErrTakenOver. Only then
// does the new publisher read the topic to its end.
//
// A batch is one transaction, and is durable once the transaction is committed. If a transaction's outcome is unknown,
// the target fails from then on. The next Open reads the topic, and so learns the outcome.
//
// Sink.Look makes a keeper (one view of one source, opened) that only reads. It doesn't fence a publisher, and reads
// the topic's new records before each look-up. It becomes a publisher when it applies its first value. If this sink
// already publishes the view, Look shares its producer.
//
// # Marks
//
// A topic belongs to one view and one source. A topic that has marks of a different view or source is refused
// (keeper.alone).
//
// A mark says up to which log position the view is complete. The sink writes a mark to every partition of the topic,
// after the data that it covers, and to the topic TOPIC.marks, with the marks' offsets. Data was lost if a partition
// ends before its mark or begins later than before, or if the topic has a different id.
package kafka
