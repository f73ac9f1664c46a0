// Package binlog decodes the bytes of a MySQL or MariaDB binlog: event headers, table maps, the values of row images,
// binary JSON, and texts in every character set that the servers have. It reads no network and no files.
//
// A Column decodes the values of one column of a TableMap to the Go values that replicator.Row.Columns documents; Kind
// says which ones. Everything accepts damaged input: a decoder returns an error, or a bad Cursor, and never panics. A
// result may alias the event if its documentation says so.
//
// The package exists beside go-mysql's network reader because values must be exactly those that a scan of the table
// reads: texts as the server itself converts them, decimals and fractions digit for digit.
package binlog
