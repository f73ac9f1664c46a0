// Command torture runs the program on real servers, injects the faults of a bad week in production, and compares every
// view exactly at the end.
//
//	go run ./torture                     makes runs until one fails, or for -time, or -runs of them
//	go run ./torture -seed 7 -runs 1     repeats a run
//	go run ./torture -seed 7 -shrink     repeats it with fewer faults and rows, as long as it fails
//	go run ./torture -kafka              sends the rows through Kafka: a publisher, three members, three brokers
//	go run ./torture -planted            plants known bugs in copies of the program; each must be caught (from the root)
//
// # A run
//
// A seed determines a plan (plan.go): tables with several shapes and keys, views of them in every sink, a
// configuration, and a list of faults (faults.go). Writers change the tables at random. Meanwhile, the faults are
// injected one after another, or two at once. A reader (reader.go) polls entities that always exist. Their contents
// must never go back or vanish, and an index and the rows that it leads to must agree in every snapshot. If the source
// has two shards, keys move between them in half of the runs (moves.go). In two thirds of the runs, views of plain rows
// show joined rows of another table and of the same one (joined.go), and faults also affect that table. In half of the
// runs, the writers stop before the last fault. This finds faults that the program would only notice with the next
// write. At the end, all faults are healed. Within -patience, every view must equal the model's result (model.go) for
// the source's rows.
//
// # What is compared
//
// The model knows nothing of the program. It reads the source's tables, takes the newest row of each cell, and computes
// each view's content as text, and its number of dead letters. The sinks' contents are read with plain queries. So it
// does not matter how a transaction ended that a killed server left open: the source's tables show it.
//
// # Through Kafka
//
// With -kafka, the program publishes to a topic. Three members of consumer groups read it and keep the views
// (stream.go): the plan's, and the 17 tables of examples/jogchat, with that example's writer and check. Faults then
// also affect members, their states, their groups, and brokers (hurtmembers.go).
//
// # Results
//
//	go run ./torture -runs 1000 -all -main mariadb-10.11,mysql -cache redis-7,redis-8,valkey -results runs.jsonl
//	go run ./torture -report runs.jsonl,more.jsonl
//
// -results records the servers and faults that each run really used, and -report makes tables from that (results.go). A
// run that the harness can't finish says nothing about the program. It is counted separately, and the next one follows.
// With -all, the next run also follows a failed one.
//
// # Repeating a run
//
// The plan depends only on the seed, and is printed with a failure. The timing of real servers and processes varies, so
// a failed seed may need several tries. -shrink tries each smaller plan a few times.
package main
