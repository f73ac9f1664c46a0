package servers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A start takes many seconds of CPU, so the other kinds are only tested in `make matrix`.
func TestElasticsearchKeepsItsDataThroughAKillAndCanBeSuspended(t *testing.T) {
	s := servertest.Own(t, servers.Elasticsearch)
	defer http.DefaultClient.CloseIdleConnections()
	ask := func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.DSN("")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := ask(http.MethodPut, "/things/_doc/1", `{"n": 9007199254740993}`); !strings.Contains(text, `"created"`) {
		t.Fatal(text)
	}
	first := s.PID()
	if err := s.Suspend(); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if s.Running() {
		t.Error("it runs after Kill")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.PID() == first {
		t.Errorf("process %d serves again after it was killed", first)
	}
	if text := ask(http.MethodGet, "/things/_doc/1", ""); !strings.Contains(text, "9007199254740993") {
		t.Errorf("after the kill it says %s", text)
	}
}
