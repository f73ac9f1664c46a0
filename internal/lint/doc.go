// Package lint tests rules of this repository that no linter checks. tools.mod has the versions of the linters that
// `make lint` runs. deploy.mod has the versions of the programs that check the files in deploy. Separate module files
// keep the requirements of these tools out of go.mod.
package lint
