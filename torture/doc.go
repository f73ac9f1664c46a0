// Command torture hurts the program in the ways that a production week would, on real servers, and compares every view
// exactly at the end.
//
//	go run ./torture                     one run after another until one fails, or for -time, or -runs of them
//	go run ./torture -seed 7 -runs 1     that run again
//	go run ./torture -seed 7 -shrink     the same with fewer faults and rows, as long as it fails
//	go run ./torture -kafka              the rows go through Kafka: a publisher, three members, three brokers
//	go run ./torture -planted            plants known bugs in copies of the program; each must be caught (from the root)
//
// # A run
//
// A seed gives a plan (plan.go): tables of several shapes and keys, views of them in every sink, a configuration, and a
// list of faults (faults.go). Writers change the tables at random while the faults are inflicted one after another, or
// two at once. A reader (reader.go) polls entities that exist throughout: what it sees of them must not go back, and
// must not vanish; and an index and the rows that it leads to must agree in every snapshot. Where the source has two
// shards, keys move between them in half of the runs (moves.go). In two thirds of the runs views of plain rows show
// joined rows, of another table and of the same one (joined.go); faults hit that table, too. In half of the runs the
// writers fall silent before the last fault: what is noticed only when something more is written is not noticed then. In the end all is healed, and
// within -patience every view has to equal what the model (model.go) makes of the rows that the source then holds.
//
// # What is compared
//
// The model knows nothing of the program: it reads the source's tables, takes the newest row of each cell, and says
// what each view has to hold as text, and how many dead letters it has. What the sinks hold is read by plain queries.
// So the outcome of a transaction that a killed server left open needs no thought: the source says what became of it.
//
// # Through Kafka
//
// With -kafka the program publishes to a topic, and three members of consumer groups keep the views of what they read
// there (stream.go): the plan's, and the 17 tables of examples/jogchat, whose writer and check they are. Faults then
// also hit members, their states, their groups and brokers (hurtmembers.go).
//
// # What was run
//
//	go run ./torture -runs 1000 -all -main mariadb-10.11,mysql -cache redis-7,redis-8,valkey -results runs.jsonl
//	go run ./torture -report runs.jsonl,more.jsonl
//
// -results keeps what each run really used and suffered, and -report makes tables of it (results.go). A run that the
// harness can't finish says nothing of the program: it is counted apart, and the next one follows. With -all the next
// one also follows a run that was wrong.
//
// # Repeating a run
//
// The plan is a function of the seed, and is printed with a failure. Real servers and processes keep no exact time, so
// a seed that failed once may need several tries; -shrink tries each smaller plan a few times.
package main
