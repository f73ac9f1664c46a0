// Command torture runs the program on real servers, injects the faults of a bad week in production, and compares every
// view exactly at the end.
//
//	go run ./torture                     runs until a seed fails, or up to -time or -runs
//	go run ./torture -seed 7 -runs 1     repeats the run with seed 7
//	go run ./torture -seed 7 -shrink     repeats it with fewer faults and rows, as long as it still fails
//	go run ./torture -kafka              sends the rows through Kafka: a publisher, three members, three brokers
//	go run ./torture -planted            plants known bugs, and expects runs to fail (start it in the root)
//
// # A run
//
// A seed determines a plan (plan.go): tables with several shapes and keys, views of them in every sink, a
// configuration, and a list of faults (faults.go). Writers change the tables at random. Meanwhile, the harness injects
// the faults one after another, or two at once. A reader (reader.go) polls rows that always exist. Their contents must
// never go back or vanish, and an index must agree with the rows it leads to in every snapshot.
//
// If the source has two shards, keys move between them in half of the runs (moves.go). In two thirds of the runs, views
// of plain rows also show rows joined from another table and from the same table (joined.go). Faults then affect the
// joined table, too. In half of the runs, the writers stop before the last fault. This finds faults that the program
// would only notice with the next write. At the end, the harness heals all faults. Within -patience, every view must
// then equal what the model (model.go) computes from the source's rows.
//
// # What is compared
//
// The model shares no code with the program. It reads the source's tables and takes the newest row of each key. From
// these rows it computes each view's content as text, and its number of dead letters. The harness reads the sinks with
// plain queries. A killed server may or may not have committed an open transaction. This does not matter, because the
// model only uses the rows that the source's tables have at the end.
//
// # Through Kafka
//
// With -kafka, the program publishes to a topic. Three members of consumer groups read the topic and maintain the views
// (stream.go). These are the plan's views and the 17 tables of examples/jogchat, with that example's writer and check.
// Faults then also affect members, their states, their groups, and brokers (hurtmembers.go).
//
// # Results
//
//	go run ./torture -runs 1000 -all -main mariadb-10.11,mysql -cache redis-7,redis-8,valkey -results runs.jsonl
//	go run ./torture -report runs.jsonl,more.jsonl
//
// -results records the servers and faults that each run really used, and -report makes tables from these records
// (results.go). If the harness itself fails, the run says nothing about the program. Such a run is counted separately,
// and the next run follows. With -all, torture also continues after a run that found errors in the program.
//
// # Repeating a run
//
// The plan depends only on the seed, and is printed when a run fails. The timing of real servers and processes varies,
// so a failed seed may need several tries. -shrink tries each smaller plan a few times.
package main
