// Package survey looks at a source and writes a starter configuration for it: which tables hold cells, events or plain
// rows, which columns have which role, how bodies are written, which properties they have, and a few views to begin
// with.
//
// # Promises
//
//   - The source is only read, and little of it: information_schema, and of each table a sample of rows along its
//     primary key, bounded in rows, bytes and time. No lock is asked for. SELECT is enough.
//   - What is written is valid: it is read by package config, and `check` and `run` work with it as it stands. What is
//     not sure stands there as a comment, with the reason. Lines that begin with # and no space are settings that only
//     want their # removed.
//   - No view is written to a table that holds rows, unless the program keeps that table already.
//   - One source and one content give one text. The password is no part of it: ${DB_PASSWORD} stands in its place.
//
// # Parts
//
// Read fills Tables (read.go, sample.go). The rest is a function of these alone: the roles of a table's columns
// (roles.go), the codec of its bodies (body.go), the properties of the decoded ones (property.go) and their types
// (types.go), the views that they suggest (suggest.go, bodyviews.go, plainviews.go), and the text (write.go, toml.go).
// Bodies are decoded by codecs that the caller brings.
package survey
