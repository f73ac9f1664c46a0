// Package matrix runs one scenario on every release of a source that the program supports. It runs once with the
// server's defaults, and once with the other value of two settings: GTIDs, and column names in the binlog. Both change
// how the program reads the server.
//
// In the scenario, writers change a table of plain rows and a table of cells with versions. While the writers run, both
// tables are altered, the program is killed repeatedly, and views are rebuilt. At the end, every view must equal the
// rows. The views are of all kinds that MySQL and Redis support, and a document view. The server is both the source and
// the MySQL sink.
//
// By default, other tests run on fewer releases. `make matrix` runs all tests on every release.
package matrix
