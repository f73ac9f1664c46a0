package lint

import (
	"testing"

	"replicator/config"
	"replicator/sinks"
)

// The file that docker-compose.yml mounts must stay one that the program takes.
func TestDeployedConfigurationLoads(t *testing.T) {
	env := func(name string) (string, bool) { return "secret", name == "DB_PASSWORD" || name == "REPLICATOR_TOKEN" }
	if _, err := config.Load("../../deploy/replicator.toml", env, sinks.Types()); err != nil {
		t.Error(err)
	}
}
