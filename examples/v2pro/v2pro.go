// Package v2pro is an example with an event log. Every command appends a row with an account's new state and version,
// and the views in MySQL, Redis and Elasticsearch show the newest states. The package contains the example's files, an
// application that handles commands, and a check of every view that shares no code with the replicator.
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
