// Package docs checks the documentation: what docs/types.md says of types is what the built program stores,
// docs/add-an-index.md works as it stands, and pages name no file that does not exist. The tables of docs/types.md are
// written by the test itself:
//
//	go test ./internal/docs -update
package docs
