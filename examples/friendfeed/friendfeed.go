// Package friendfeed is the example of entities that are changed in place: pickled by Python, with indexes spread over
// three databases. It holds the example's files, a writer and a check in Python (writer.py, expected.py), and their
// comparison with what the databases hold.
package friendfeed

import _ "embed"

// Schema is the DDL of the entities' database, Shards that of each database of indexes.
var (
	//go:embed schema.sql
	Schema string
	//go:embed shards.sql
	Shards string
)

// Config is the example's configuration file. It takes FRIENDFEED_DSN, FRIENDFEED_SHARD0 to FRIENDFEED_SHARD2,
// FRIENDFEED_STATE and FRIENDFEED_LISTEN from the environment.
//
//go:embed replicator.toml
var Config string
