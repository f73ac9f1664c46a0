// Package kafka is the sink for Kafka: views of kind changelog, the newest row of every cell in a compacted topic.
//
// docs/changelog-format.md says what a topic holds, docs/kafka.md how it is set up, and ADR 15 why it is made so.
//
// # How a cell is written
//
// A cell's state (see replicator.State) stands in its newest record. The sink keeps a table of the newest records on
// the disk (changelog.Table), brought up to date when a view is opened, judges every op by it, and appends only what
// counts. It must: compaction keeps the last record of a key, so a stale one at the end would take the newest with it.
//
// That nobody else appends in between is Kafka's doing. Each view and source has a producer with a transactional id of
// its own. A publisher that opens the view takes the id over, which ends the older one's transaction and fences it: its
// next one fails with an error that says so. Only then is the topic read to its end.
//
// A batch is a transaction, and durable when that is committed. If the outcome of one is not known, the target fails
// from then on, and the next Open reads what became of it.
//
// Who only looks (Sink.Look) fences nobody and reads the topic on before each look. With the first value that it
// applies it becomes a publisher. A look by the sink that publishes the view shares its producer.
//
// # Marks
//
// A topic is one view's and one source's: what is marked for another view or source is refused (alone).
//
// A mark stands in every partition of the topic, behind the data it stands for, and in the topic TOPIC.marks with the
// offsets where those stand. A partition that ends before them, or begins behind where it began, or a topic with
// another id, has lost data.
package kafka
