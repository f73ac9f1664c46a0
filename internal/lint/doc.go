// Package lint holds the rules of this repository that no linter knows, as tests, and in tools.mod the
// versions of the linters that `make lint` runs, in deploy.mod of what looks at the files of deploy. Module files of
// their own keep their requirements out of the program's.
package lint
