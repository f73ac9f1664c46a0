// Package guide keeps the profile that guides the compiler (go help build: -pgo): where the program spends its time on
// the loads of the benchmark. What is called most is inlined further there, and calls through an interface are made
// directly where one type is behind it nearly always.
//
// `make build`, `make dist` and the Dockerfile build with it, and the benchmark measures that build. It is not
// cmd/replicator/default.pgo, which every go command would take: each package that the program needs is compiled once
// more with it, the standard library included, and tests gain nothing by that.
//
// The compiler finds functions by their names, module path included, and takes no notice of those that are gone. So a
// profile grows old harmlessly and silently. `make profile` makes it anew.
package guide

// Path is the profile's, below the module's root.
const Path = "cmd/replicator/guide.pgo"

// Variable names the directory that a program writes its profile to, if it is built with Tag.
const (
	Variable = "REPLICATOR_PROFILE"
	Tag      = "profile"
)
