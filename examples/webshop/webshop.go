// Package webshop is the example of documents that are made of several tables: orders with their customers, companies
// and items. It holds the example's files, a writer that does all that a shop may do to such rows, and a check of every
// view against SQL joins that shares no code with the program.
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
