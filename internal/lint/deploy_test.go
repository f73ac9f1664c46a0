package lint

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v2"

	"replicator/config"
	"replicator/sinks"
)

// The files that docker-compose.yml mounts, and that a ConfigMap holds, must stay ones that the program takes.
func TestDeployedConfigurationLoads(t *testing.T) {
	env := func(name string) (string, bool) { return "secret", name == "DB_PASSWORD" || name == "REPLICATOR_TOKEN" }
	if _, err := config.Load("../../deploy/replicator.toml", env, sinks.Types()); err != nil {
		t.Error(err)
	}
	mounted := filepath.Join(t.TempDir(), "replicator.toml")
	if err := os.WriteFile(mounted, []byte(configMap(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(mounted, env, sinks.Types()); err != nil {
		t.Error("deploy/kubernetes: ", err)
	}
}

// configMap is the configuration that the manifests hold, which must be YAML without a key twice.
func configMap(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/replicator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	documents := yaml.NewDecoder(bytes.NewReader(text))
	documents.SetStrict(true)
	for {
		var manifest struct {
			Kind string
			Data map[string]string
			Rest map[string]any `yaml:",inline"`
		}
		err := documents.Decode(&manifest)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if manifest.Kind == "ConfigMap" {
			found = manifest.Data["replicator.toml"]
		}
	}
}
