package lint

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"replicator/config"
	"replicator/sinks"
)

// The program must accept the configuration files in deploy, and the configuration in the ConfigMap.
func TestDeployedConfigurationLoads(t *testing.T) {
	mounted := filepath.Join(t.TempDir(), "replicator.toml")
	if err := os.WriteFile(mounted, []byte(configMap(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"DB_PASSWORD": "secret", "REPLICATOR_TOKEN": "secret"}
	env := func(name string) (string, bool) { value, set := secrets[name]; return value, set }
	files := append(deployed(t, "*.toml"), mounted)
	if len(files) < 4 {
		t.Errorf("only %q", files)
	}
	for _, file := range files {
		if _, err := config.Load(file, env, sinks.Types()); err != nil {
			t.Error(err)
		}
	}
}

// The appliers must read the topics that the publisher writes.
func TestAppliersReadWhatThePublisherKeeps(t *testing.T) {
	env := func(string) (string, bool) { return "secret", true }
	publisher, err := config.Load("../../deploy/kafka/publisher.toml", env, sinks.Types())
	if err != nil {
		t.Fatal(err)
	}
	appliers, err := config.Load("../../deploy/kafka/applier.toml", env, sinks.Types())
	if err != nil {
		t.Fatal(err)
	}
	var topics []string
	for _, v := range publisher.Views {
		topics = append(topics, v.Name)
	}
	if got := appliers.Source.Kafka.Topics; !slices.Equal(got, topics) {
		t.Errorf("the appliers read %q, the publisher keeps %q", got, topics)
	}
	if publisher.Checkpoint.Table == appliers.Checkpoint.Table {
		t.Errorf("both keep checkpoints in %s", appliers.Checkpoint.Table)
	}
}

// kubernetes enables the check of the manifests. It needs a program that takes minutes to build, so only `make
// manifests` and `make dist` enable it.
var kubernetes = flag.Bool("kubernetes", false, "hold the manifests against Kubernetes' schemas")

func TestManifestsAreWhatKubernetesTakes(t *testing.T) {
	if !*kubernetes {
		t.Skip("make manifests builds kubectl-validate, and runs this")
	}
	takes(t, "kubectl-validate", "containerPort", deployed(t, "kubernetes/*.yaml", "kafka/kubernetes.yaml"))
}

func TestComposeFilesAreWhatComposeTakes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	takes(t, "cmd", "stop_grace_period", append(deployed(t, "kafka/docker-compose.yml"), "../../docker-compose.yml"))
}

// takes fails the test unless a tool of deploy.mod accepts the files, and refuses a setting that it doesn't know.
func takes(t *testing.T, tool, setting string, files []string) {
	t.Helper()
	look := func(file string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "go", "tool", "-modfile=deploy.mod", tool, file).CombinedOutput()
		return string(out), err
	}
	for _, file := range files {
		if out, err := look(file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		wrong := filepath.Join(t.TempDir(), filepath.Base(file))
		text = bytes.ReplaceAll(text, []byte(setting+":"), []byte("mistaken:"))
		if err := os.WriteFile(wrong, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := look(wrong); err == nil || !strings.Contains(out, "mistaken") {
			t.Errorf("%s with a setting that nobody knows: %v\n%s", file, err, out)
		}
	}
}

// deployed returns the files in deploy/ and in its folders that match a pattern.
func deployed(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, pattern := range patterns {
		for _, dir := range []string{"../../deploy", "../../deploy/*"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
	}
	if len(files) < len(patterns) {
		t.Fatalf("%q: only %q", patterns, files)
	}
	return files
}

// configMap returns the configuration in the manifests. They must be YAML without duplicate keys.
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
