// Package docs checks the documentation: what docs/types.md says of types is what the built program stores. The tables there
// are written by the test itself:
//
//	go test ./internal/docs -update
package docs
