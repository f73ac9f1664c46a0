// Package lab is what the tests of the examples share: the built program with a configuration, killed and started
// again; clients of the servers that are not the program's own (mysql, redis-cli, plain HTTP); a reader that looks at a
// few places while something happens; the comparison of what should be held with what is.
//
// What a program of a Program's wrote stands in the test's temporary directory; the end of it is shown where a test
// fails. Every process that is started here ends with the test.
package lab
