// Command bench measures the program on real, throwaway servers, beside what the same machine can do at best, in one
// run:
//
//	make bench                              MySQL, a million cells
//	make bench ARGS='-servers mysql,mariadb-10.11 -json bench.json'
//	make bench ARGS='-only distinct,growth,latency -cells 1000000 -json bench.json'
//	go run ./bench peers                    other programs and this one in turns on the same cells: -help names the flags
//	go run ./bench bounds                   what is large: transactions, bodies, backlogs, views, DDL; its memory
//	go run ./bench profile FILE             the profile of these loads that guides the compiler: package guide
//	make bench ARGS=-quick                  a smoke run: small, its figures mean nothing
//
// # What is measured
//
// A source server holds the cells of one column, users: JSON bodies of many versions each, written beforehand. A sink
// server of the same kind keeps a view of them.
//
//	catch-up       the built program, run --until-caught-up from the oldest binlog into an empty index table
//	fill           the same from a snapshot: a scan, then the tail
//	latency        the program running, a writer of single-row transactions: from the return of a commit to the moment a
//	               reader of the sink sees it, as a whole and for each second's commits: an index table, a Redis hash,
//	               both at once. Redis tells its reader which hashes change; the table's looks twice a millisecond, so a
//	               quarter of one is its own on average
//	redis          the built program into a Redis hash for each entity, beside raw-hset: pipelined HSET of the same
//	               hashes
//	elastic        the same into an Elasticsearch document for each, beside raw-bulk: _bulk requests of the same
//	               documents
//	distinct       only where -only names it: the built program into an index table, and into a Redis hash and index, in
//	               four runs each: a cell of every entity, a newer one that moves its index entry, one that says the same
//	               again, and as many of one entity
//	growth         only where -only names it: what a distinct cell costs from 10,000 cells to -cells, from 1 view to 50
//	               (of a twentieth of the cells), and from 100 bytes a body to 64 KiB (of a tenth of them, 256 MiB at
//	               most)
//	kafka          only where -only names it: a publisher brings a cell of every entity, a fifth of -cells, into a topic
//	               ("publish"), then a member keeps a Redis hash of each ("member", whose source is the broker)
//	isolation      only where -only names it: the latency into an index table while Redis is well, down, hanging, or
//	               spoiled by a FLUSHALL, and into a Redis hash while MySQL is, or lacks the table
//	joins          only where -only names it: filling orders with their customers and items, the latency of a change in
//	               each table, a change that a third of the orders are made with and the latency beside it, and the same
//	               by a join query for each order
//	images         only where -only names it: an update of every row of a table, logged with binlog_row_image FULL,
//	               NOBLOB and MINIMAL: of a body and a number, then of the number alone. A row that the log has whole is
//	               used as it is, any other one is read from the source
//	tables         only where -only names it: as many tables as a twentieth of -entities, which a pattern names: the first
//	               fill, a start, and the program while nothing is written, as long as the latency is measured
//
// "of raw" is the program's speed divided by that of the raw writes beside it, which no program that does the same work
// can pass. Raw writes use as many connections, and batches as large, as the program's lanes do.
//
// Redis and Elasticsearch have a source of their own with fewer cells: an entity for every four cells of the other
// stages, or every ten, in two runs. The first ("new") brings a cell of each entity, the second ("update"), of a
// program that starts again and so remembers nothing, a newer cell of each.
//
// CPU is user and system time: the client's own (the bench's while it is the client, else the program's), and that of
// both servers. µs a cell is the same number as CPU seconds per million cells. It survives a noisy machine; speeds
// don't, which is why the load average is printed.
//
// # What is checked
//
// After each run of ours every row of every table, every hash and every document is compared with what the workload
// says: a figure of a wrong result is never printed. The email of a cell is another one in every version, so every
// newer version moves an index entry; one cell in a hundred arrives late, with a lower version than its entity has by
// then.
//
// # Servers
//
// They wait for no disk on commit (Options.Small of package servers) and have a buffer pool and a redo log of 256 MiB,
// raw and ours alike. Redis writes no file. Elasticsearch compiles its code quickly rather than well, as it would else
// be busy with that for minutes, and has written the documents once before it is measured. Where a machine can't have
// it, its stage is left out and the report says so. The bench ends them, also on Ctrl-C, and they die with it.
package main
