// Command bench measures the program on real, temporary servers. In the same run, it measures raw writes, which are the
// fastest that the same machine can do:
//
//	make bench                              MySQL, a million rows
//	make bench ARGS='-servers mysql,mariadb-10.11 -json bench.json'
//	make bench ARGS='-only distinct,growth,latency -cells 1000000 -json bench.json'
//	go run ./bench peers                    compares replicator with others on the same rows: -help lists the flags
//	go run ./bench bounds                   the program's memory with large transactions, bodies, backlogs, views, DDL
//	go run ./bench profile FILE             writes a profile for optimizing builds to FILE (package guide)
//	make bench ARGS=-quick                  a small smoke run, whose figures mean nothing
//
// # What is measured
//
// A source server has a table of users. Each of its rows is one version of a user (an entity), with a JSON body. The
// flags and the report call such a row a cell, although a cell in docs/concepts.md is all versions of one user. The
// bench writes the rows in advance. A sink server of the same kind contains a view of the newest versions.
//
//	catch-up       the built program, run --until-caught-up from the oldest binlog into an empty index table
//	fill           the same from a snapshot: a scan, then the binlog
//	latency        the program runs while a writer commits single-row transactions: the time from a commit's return
//	               until a reader of the sink sees the change, overall and for each second's commits; for an index
//	               table, a Redis hash, and both at once. Redis notifies its reader. The table's reader polls twice a
//	               millisecond, which adds a quarter of a millisecond on average
//	redis          the built program into a Redis hash for each entity, and raw-hset: pipelined HSET of the same
//	               hashes
//	elastic        the built program into an Elasticsearch document for each entity, and raw-bulk: _bulk requests of
//	               the same documents
//
// These run only if -only names them:
//
//	distinct       the built program into an index table, and into a Redis hash and index, in four runs each: a row of
//	               every entity; newer rows that move the index entries; newer rows with the same content; and the
//	               same number of rows, all of one entity
//	growth         the cost of an entity's only row from 10,000 rows to -cells, from 1 view to 50 (with a twentieth of
//	               the rows), and from 100 bytes a body to 64 KiB (with a tenth of the rows, 256 MiB at most)
//	kafka          a publisher writes a row of every entity, a fifth of -cells, to a topic ("publish"), then a member
//	               keeps a Redis hash of each ("member", whose source is the broker)
//	isolation      the latency into an index table while Redis is well, down, hanging, or emptied by FLUSHALL; and into
//	               a Redis hash while MySQL is well, down or hanging, or lacks the table
//	joins          filling orders with their customers and items; the latency of a change in each table; a change that
//	               affects a third of the orders, and the latency of other changes at the same time; and the update of
//	               this third as a simple program makes it, with a join query for each order
//	images         an update of every row of a table, with binlog_row_image FULL, NOBLOB and MINIMAL: first of a body
//	               and a number, then of the number alone. A complete row in the binlog is used as it is. Other rows are
//	               read from the source
//	tables         tables that match a pattern, a twentieth of -entities: the first fill; a later start; and the program
//	               while no rows change, for -latency-seconds
//	transaction    CPU time of single-row transactions: of a writer alone ("writer"), and with the program running, into an
//	               index table and into a Redis hash. The readers read once a second, so they use hardly any CPU time
//	swaps          the longest time from a commit until a reader sees it while a rebuilt view is swapped in, for this
//	               view and for a second view in the same database
//
// The report's column "of raw" is the program's speed divided by the speed of the raw writes of the same stage. A
// program that does the same work can't be faster than the raw writes. Raw writes use as many connections and as large
// batches as the program's writers.
//
// The stages redis and elastic have their own source with fewer entities, a quarter and a tenth of -cells, and two
// runs. The first run ("new") writes one row for each entity. The second run ("update") writes a newer row for each
// entity. It uses a newly started program, which remembers nothing.
//
// CPU is user and system time of the client and of both servers. The client is the bench itself for raw writes, and
// otherwise the program. µs a cell is the same number as CPU seconds per million cells. CPU times hardly change on a
// noisy machine. Speeds do, so the load average is printed.
//
// # What is checked
//
// After each run of the program, every row, hash and document is compared with the workload. Figures of a wrong result
// are never printed. A user's email is different in every version, so every newer version moves an index entry. One row
// in a hundred arrives late, with a lower version than its entity already has.
//
// # Servers
//
// The servers don't wait for a disk on commit (Options.Small of package servers). They have a buffer pool and a redo
// log of 256 MiB, both for raw writes and for the program. Redis writes no file. Elasticsearch's JVM only uses its fast
// compiler, because the optimizing compiler would be busy for minutes. Elasticsearch has written the documents once
// before it is measured. If a machine can't run Elasticsearch, the bench skips its stage and the report says so. The
// bench stops all servers, also on Ctrl-C. If the bench is killed, the servers end, too.
package main
