package elastic

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// writesEnd must not wait for writes that begin later.
func TestWritesThatAreUnderWayAreWaitedFor(t *testing.T) {
	asked := 0
	answers := []string{
		`{"nodes": {"a": {"tasks": {"a:1": {"action": "indices:data/write/bulk"}, "a:2": {}}}, "b": {"tasks": {"b:1": {}}}}}`,
		`{"nodes": {"a": {"tasks": {"a:2": {}, "a:3": {}}}}}`,
		`{"nodes": {"a": {"tasks": {"a:3": {}, "a:4": {}}}}}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/_tasks" || asked == len(answers) {
			t.Errorf("it asks for %s, %d times before", r.URL, asked)
			return
		}
		fmt.Fprint(w, answers[asked])
		asked++
	}))
	defer s.Close()
	c, err := newClient(Config{Addresses: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.writesEnd(t.Context()); err != nil || asked != len(answers) {
		t.Errorf("it waited for %d answers, %v", asked, err)
	}
	asked, answers = 0, []string{`{"nodes": {}, "node_failures": [{"type": "failed_node_exception"}]}`}
	if err := c.writesEnd(t.Context()); err == nil {
		t.Error("a node that does not answer may be at a write")
	}
}
