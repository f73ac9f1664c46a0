package redis

import (
	"testing"

	"go.uber.org/goleak"

	"replicator/internal/servers/servertest"
)

// A client's pool whose server was gone looks once a second whether it is back, and only then whether it was closed.
func TestMain(m *testing.M) {
	servertest.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
