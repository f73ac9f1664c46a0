package servers

import (
	"fmt"
	"strings"
)

// MissingError means that this machine can't run a kind of server. Tests of that kind are skipped on the machine. Any
// other error of Start means that something is broken.
type MissingError struct {
	Kind   Kind
	Looked []string // each attempt to find the server, and why it failed
	cause  error
}

func (e *MissingError) Error() string {
	sp := specs[e.Kind]
	if sp == nil { // The kind is not a server but a tool, such as a browser. A tool is never taken from PATH.
		return fmt.Sprintf("servers: no %s on this machine: %s. Use a machine with apt and a Debian mirror (or set %s to the URL of one), "+
			"or set %s to a cache that was filled on such a machine", e.Kind, strings.Join(e.Looked, "; "),
			mirrorVariable, cacheVariable)
	}
	if sp.remedy != "" {
		return fmt.Sprintf("servers: no %s on this machine: %s. %s", e.Kind, strings.Join(e.Looked, "; "), sp.remedy)
	}
	return fmt.Sprintf("servers: no %s on this machine: %s. "+
		"Install a server of version %s or newer (below %s) so that %s is in PATH; or use a machine with apt and a Debian mirror "+
		"(on another apt system: install debian-archive-keyring and set %s to the URL of a mirror); "+
		"or set %s to a cache that was filled on such a machine",
		e.Kind, strings.Join(e.Looked, "; "), sp.min, sp.below, strings.Join(sp.server, " or "),
		mirrorVariable, cacheVariable)
}

// Unwrap returns the error of the fetch, or nil if there was no fetch.
func (e *MissingError) Unwrap() error { return e.cause }
