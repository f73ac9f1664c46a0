// Package lab has the common parts of the examples' tests. It builds the program and runs it with a configuration, so
// that tests can kill and restart it. It has clients that don't use the program's code (mysql, redis-cli, plain HTTP),
// a reader that watches a few values while something happens, and a comparison of expected and actual contents.
//
// The output of a Program's processes is in the test's temporary directory. If a test fails, the end of the output is
// shown. Every process that this package starts ends with the test.
package lab
