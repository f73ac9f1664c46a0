// Package guide keeps the profile for profile-guided optimization (go help build: -pgo), which shows where the program
// spends its time under the benchmark's loads.
//
// `make build`, `make dist` and the Dockerfile build with the profile, and the benchmark measures that build. The
// profile is not called cmd/replicator/default.pgo, because every go command would use it then, and compile each
// package a second time for tests.
//
// The compiler ignores functions of the profile that no longer exist. So an old profile does no harm, but loses its
// effect silently. `make profile` makes a new one.
package guide

// Path is the profile's path, relative to the module's root.
const Path = "cmd/replicator/guide.pgo"

// Variable is the environment variable with the directory to which the program writes its profile, if it is built with
// the build tag Tag.
const (
	Variable = "REPLICATOR_PROFILE"
	Tag      = "profile"
)
