// Package matrix runs one scenario on every release of a source that the program promises to follow: with the server's
// defaults, and with the other value of two settings that change how the server is read: GTIDs, and the names of
// columns in the binlog.
//
// The scenario: writers change a table of plain rows and a table of cells with versions, both tables are altered, the
// program is killed again and again, views are rebuilt. In the end every view must equal the rows. Views of all kinds
// that MySQL and Redis keep, and a document view, take part. The server is the source, and holds MySQL's views as well.
//
// Everything else is tested on fewer servers; `make matrix` runs all tests on all of them.
package matrix
