// Package favorites is an example with plain columns that change in place: who favorited what, and how often. It
// contains the example's files, a writer with all kinds of changes that an application may make, and a check of every
// view that shares no code with the replicator.
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
