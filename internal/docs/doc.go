// Package docs tests the documentation. docs/types.md must say how the built program stores each type,
// docs/add-an-index.md must work as written, and pages may only name files that exist. The test itself writes the
// tables of docs/types.md:
//
//	go test ./internal/docs -update
package docs
