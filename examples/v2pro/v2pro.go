// Package v2pro is the example of an event log: every command appends a row with the new state of an account and its
// version, and the newest states are kept in MySQL, Redis and Elasticsearch. It holds the example's files, an
// application that handles commands, and a check of every view against the log that shares no code with the program.
package v2pro

import _ "embed"

// Schema is the example's DDL.
//
//go:embed schema.sql
var Schema string

// Config is the example's configuration file. It takes V2PRO_DSN, V2PRO_REDIS, V2PRO_ELASTIC, V2PRO_INDEX, V2PRO_STATE
// and V2PRO_LISTEN from the environment.
//
//go:embed replicator.toml
var Config string
