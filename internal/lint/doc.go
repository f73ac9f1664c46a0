// Package lint holds the rules of this repository that no linter knows, as tests, and in tools.mod the
// versions of the linters that `make lint` runs. A module file of their own keeps the linters'
// requirements out of the program's.
package lint
