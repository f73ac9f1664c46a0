package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/config"
	"replicator/sinks"
)

// everySecret is a configuration in which every secret comes from an environment variable or another file.
const everySecret = `
[source]
dsn = "${NOPE}"
[checkpoint]
store = "mysql"
dsn_file = "/nowhere/dsn"
[http]
listen = "${LISTEN}"
token_file = "/nowhere/token"
[tables.cell]
key = "row_key"
body = "body"
[sinks.main.shards]
a = "${NOPE}"
b = { dsn_file = "/nowhere/b" }
[sinks.cache]
type = "redis"
urls = ["redis://${NOPE}:1", "${NOPE}"]
cluster = true
ca_cert = "/nowhere/ca.pem"
[sinks.search]
type = "elastic"
addresses = ["${NOPE}"]
username = "${NOPE}"
password_file = "/nowhere/password"
[views.a]
from = "cell"
sink = "cache"
kind = "hash"
key = "a:{row_key}"
fields = ["email"]
`

func TestWhatOnlyAsksNeedsNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Replace(text, "[sinks.main.shards]",
			"[sinks.main]\ntype = \"mysql\"\n[sinks.main.shards]", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := environment(map[string]string{"LISTEN": "127.0.0.1:9190"})
	write(everySecret)
	if _, err := config.Load(path, env, sinks.Types()); err == nil || !strings.Contains(err.Error(), "NOPE") ||
		!strings.Contains(err.Error(), "/nowhere/token") {
		t.Errorf("Load: %v", err)
	}
	c, err := config.LoadToAsk(path, env, sinks.Types())
	if err != nil || !c.Partial || c.HTTP.Listen != "127.0.0.1:9190" || len(c.Views) != 1 {
		t.Fatalf("LoadToAsk: %+v, %v", c, err)
	}
	for _, wrong := range []struct{ old, new, says string }{
		{`listen = "${LISTEN}"`, `listen = "${NOPE}"`, "http.listen: the environment variable NOPE is not set"},
		{`kind = "hash"`, `kid = "hash"`, "kid"},
		{`key = "row_key"`, `key = "row_key`, "f.toml:"},
	} {
		write(strings.Replace(everySecret, wrong.old, wrong.new, 1))
		if _, err := config.LoadToAsk(path, env, sinks.Types()); err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%s: %v", wrong.new, err)
		}
	}
	whole, err := config.LoadToAsk("../config.example.toml", environment(map[string]string{"DB_PASSWORD": "x"}), sinks.Types())
	if err != nil || whole.Partial {
		t.Errorf("a whole file: %+v, %v", whole, err)
	}
}
