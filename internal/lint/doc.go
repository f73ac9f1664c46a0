// Package lint has tests for this repository's rules that no linter knows. tools.mod has the versions of the linters
// that `make lint` runs, and deploy.mod those of the checkers for the files in deploy. Separate module files keep their
// requirements out of the program's.
package lint
