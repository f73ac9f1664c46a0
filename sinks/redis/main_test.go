package redis

import (
	"testing"

	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }
