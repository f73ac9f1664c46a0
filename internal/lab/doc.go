// Package lab has the common parts of the examples' tests: the built program with a configuration, which tests can kill
// and restart; clients that are not the program's own (mysql, redis-cli, plain HTTP); a reader that watches a few
// values while something happens; and the comparison of expected and actual contents.
//
// The output of a Program's processes is in the test's temporary directory. If a test fails, its end is shown. Every
// process that this package starts ends with the test.
package lab
