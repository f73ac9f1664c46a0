// Package binlog decodes the bytes of a MySQL or MariaDB binlog. It decodes event headers, table maps, the values of
// row images, binary JSON, and texts in all character sets of the servers. It uses no network and no files.
//
// A Column decodes the values of one column of a TableMap to the Go values that replicator.Row.Columns documents. The
// column's Kind says which ones. All decoders accept damaged input: they return an error, or a bad Cursor, and never
// panic. Results share the event's memory only where the documentation says so.
//
// We don't use go-mysql's decoder, because a value must be exactly the value that a scan of the table reads. Texts must
// be converted as the server converts them, and decimals and fractions must keep every digit.
package binlog
