// Package binlog decodes the bytes of a MySQL or MariaDB binlog: event headers, table maps, the values of row images,
// binary JSON, and texts in every character set that the servers have. It uses no network and no files.
//
// A Column decodes the values of one column of a TableMap to the Go values that replicator.Row.Columns documents; its
// Kind says which ones. All decoders accept damaged input: they return an error, or a bad Cursor, and never panic.
// Results share the event's memory only where the documentation says so.
//
// We don't use go-mysql's decoder, because a value must be exactly the one that a scan of the table reads: texts as the
// server itself converts them, decimals and fractions digit for digit.
package binlog
