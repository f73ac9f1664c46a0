package servers_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// holderVariable makes the test binary a process that starts a server and waits to be killed.
const holderVariable = "SERVERS_TEST_HOLD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(holderVariable); kind != "" {
		s, err := servers.Start(context.Background(), servers.Options{Kind: servers.Kind(kind), Small: true})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.PID(), s.Dir)
		select {}
	}
	servertest.Main(m)
}
