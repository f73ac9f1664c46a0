// Package favorites is the example of plain columns that change in place: who favorited what, how often. It holds the
// example's files, a writer that does all that an application may do to such rows, and a check of every view against
// them that shares no code with the program.
package favorites

import _ "embed"

// Schema is the example's DDL.
//
//go:embed schema.sql
var Schema string

// Config is the example's configuration file. It takes FAVORITES_DSN, FAVORITES_REDIS, FAVORITES_STATE and
// FAVORITES_LISTEN from the environment.
//
//go:embed replicator.toml
var Config string
