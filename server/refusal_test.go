package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"replicator"
)

// The client can tell why a rebuild was refused. It can follow a rebuild that is already running. A paused view
// prevents a rebuild.
func TestTheClientKnowsWhyARebuildIsRefused(t *testing.T) {
	p := &program{}
	_, c := serve(t, "127.0.0.1:0", "", p, nil)
	reasons := []error{replicator.ErrRebuilding, replicator.ErrPaused, replicator.ErrNotServing}
	for i, why := range reasons {
		p.fails(fmt.Errorf("%w: view v: %w", ErrBusy, why))
		err := c.Rebuild(t.Context(), "v", Rebuild{})
		if !errors.Is(err, ErrBusy) || !strings.HasSuffix(err.Error(), why.Error()) {
			t.Errorf("%v: %v", why, err)
		}
		for j, other := range reasons[:2] {
			if errors.Is(err, other) != (i == j) {
				t.Errorf("%v is taken for %v: %t", why, other, i != j)
			}
		}
	}
}

func TestWhatTheAPIDoesNotHaveIsSaidInJSON(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", "", &program{}, nil)
	for _, c := range []struct {
		method, path string
		code         int
		allow, says  string
	}{
		{"GET", "/api/v1/views/v/pause", 405, "POST", "/api/v1/views/v/pause accepts POST, not GET"},
		{"POST", "/api/v1/status", 405, "GET, HEAD", "/api/v1/status accepts GET, HEAD, not POST"},
		{"GET", "/api/v1/nosuch", 404, "", "unknown path /api/v1/nosuch"},
		{"POST", "/api/", 404, "", "unknown path /api/"},
	} {
		code, header, text := ask(t, s, c.method, c.path, "", nil)
		var said errorAnswer
		if err := json.Unmarshal([]byte(text), &said); err != nil || said.Error != c.says || code != c.code ||
			header.Get("Allow") != c.allow || header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s %s: %d, Allow: %q, %s", c.method, c.path, code, header.Get("Allow"), text)
		}
	}
}
