// Package survey reads a source and writes a starter configuration for it. It finds which tables hold documents,
// events or plain rows, the roles of their columns, the codecs of bodies and the properties in them. It suggests a few
// views.
//
// # Promises
//
//   - The source is only read, and little of it: information_schema, and a sample of each table's rows along its
//     primary key. The sample is bounded in rows, bytes and time. No locks are requested. The SELECT right is enough.
//   - The written file is valid: package config reads it, and `check` and `run` work with it unchanged. An uncertain
//     setting is a comment with the reason. A line that starts with # and no space is a setting that is enabled by
//     removing the #.
//   - No view is written to a table that has rows, unless the program already keeps that table.
//   - The same source with the same content always gives the same text. The text contains ${DB_PASSWORD} instead of the
//     password.
//
// # Parts
//
// Read fills Tables (read.go, sample.go). Everything else depends only on these: the roles of a table's columns
// (roles.go), the codec of its bodies (body.go), the properties of decoded bodies (property.go) and their types
// (types.go), the suggested views (suggest.go, bodyviews.go, plainviews.go), and the text (write.go, toml.go). The
// caller provides the codecs for bodies.
package survey
