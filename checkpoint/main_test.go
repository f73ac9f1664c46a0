package checkpoint

import (
	"os"
	"testing"

	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child() // does not return
	}
	servertest.Main(m)
}
