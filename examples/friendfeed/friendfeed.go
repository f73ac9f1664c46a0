// Package friendfeed is an example with entities that change in place. Python pickles the entities, and their indexes
// are spread over three databases. The package contains the example's files, a writer and a check in Python (writer.py,
// expected.py), and a comparison of the check's result with the databases.
package friendfeed

import _ "embed"

// Schema is the DDL of the entities' database. Shards is the DDL of each index database.
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
