package redis

import (
	"testing"

	"go.uber.org/goleak"

	"replicator/internal/servers/servertest"
)

// After a server was unreachable, the client's pool tries once a second whether it is back. Only then does it notice
// that the client was closed.
func TestMain(m *testing.M) {
	servertest.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
