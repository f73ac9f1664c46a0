// Package webshop is an example with documents that combine several tables: orders with their customers, companies and
// items. It contains the example's files, a writer with all kinds of changes that a shop may make, and a check of every
// view by SQL joins that shares no code with the replicator.
package webshop

import _ "embed"

// Schema is the example's DDL.
//
//go:embed schema.sql
var Schema string

// Config is the example's configuration file. It takes WEBSHOP_DSN, WEBSHOP_REDIS, WEBSHOP_ELASTIC, WEBSHOP_INDEX,
// WEBSHOP_STATE and WEBSHOP_LISTEN from the environment.
//
//go:embed replicator.toml
var Config string
