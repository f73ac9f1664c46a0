package config_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/config"
	"replicator/sinks"
	"replicator/view"
)

var update = flag.Bool("update", false, "write testdata/fingerprints.txt anew: for configurations that are new")

// Sinks and stores keep fingerprints. If an upgrade changed them, every user's views would be refused or rebuilt. So a
// golden file has the fingerprints of these configurations.
func TestFingerprintsOfConfigurationsNeverChange(t *testing.T) {
	const golden = "testdata/fingerprints.txt"
	var got bytes.Buffer
	for _, file := range configurations(t) {
		c, err := config.Load(file, someServers, sinks.Types())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.Views {
			fmt.Fprintln(&got, strings.TrimPrefix(filepath.ToSlash(file), "../"), v.Name, view.Fingerprint(v, c.Tables))
		}
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(known) || line != known[i] {
			t.Fatalf("the fingerprint is %q, and %s has %q", line, golden, append(known, "")[min(i, len(known))])
		}
	}
}

// The dsn of a Kafka source is only for `verify` and `explain`. The views' contents come from the changelog alone, so
// the DSN must not change fingerprints.
func TestADSNBesideAChangelogChangesNoFingerprint(t *testing.T) {
	fingerprint := func(dsn string) string {
		file := filepath.Join(t.TempDir(), "replicator.toml")
		text := `
[source]
type = "kafka"
brokers = ["127.0.0.1:9092"]
topics = ["cells"]
group = "views"
` + dsn + `
[tables.cell]
key = "id"
body = "body"
[sinks.cache]
type = "redis"
url = "redis://127.0.0.1:6379/0"
[views.users]
from = "cell"
sink = "cache"
kind = "hash"
key = "user:{id}"
fields = ["name"]
`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, someServers, sinks.Types())
		if err != nil {
			t.Fatal(err)
		}
		if shards := c.Source.Shards; len(shards) > 0 && c.ShardTables(shards[0])[0].Database != "app" {
			t.Errorf("the table is looked for in %q", c.ShardTables(shards[0])[0].Database)
		}
		return view.Fingerprint(c.Views[0], c.Tables)
	}
	without, beside := fingerprint(""), fingerprint(`dsn = "u:p@tcp(127.0.0.1:3306)/app"`)
	if without != beside {
		t.Errorf("the fingerprint is %s, and %s with a DSN beside the changelog", without, beside)
	}
}

// configurations returns the repository's configuration files, including a file with every setting of every kind.
func configurations(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../config.example.toml", "../examples/*/*.toml",
		"../deploy/*.toml", "testdata/*.toml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "[source") { // other TOML files are not configurations
				files = append(files, file)
			}
		}
	}
	return files
}

// someServers looks up environment variables. With it, every configuration of the repository loads.
func someServers(name string) (string, bool) {
	switch {
	case strings.HasSuffix(name, "DSN"):
		return "u:p@tcp(127.0.0.1:3306)/app", true
	case strings.Contains(name, "SHARD"):
		return "u:p@tcp(127.0.0.1:3306)/" + name, true
	case strings.HasSuffix(name, "REDIS"):
		return "redis://127.0.0.1:6379/0", true
	case strings.HasSuffix(name, "ELASTIC"):
		return "http://127.0.0.1:9200", true
	case strings.HasSuffix(name, "BROKER"):
		return "127.0.0.1:9092", true
	case strings.HasSuffix(name, "PASSWORD"), strings.HasSuffix(name, "TOKEN"):
		return "hunter2", true
	}
	return "", false
}
