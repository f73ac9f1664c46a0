package server

import (
	"errors"
	"strings"
	"testing"

	"replicator"
)

func TestReadyTellsTheTruthForEachView(t *testing.T) {
	failed := viewOf("f", replicator.StateFailed, nil)
	failed.Error = "no table x"
	for name, c := range map[string]struct {
		view  replicator.ViewStatus
		ready bool
		want  string
	}{
		"running":    {viewOf("v", replicator.StateRunning, lag(0)), true, `"reasons":[]`},
		"rebuilding": {viewOf("v", replicator.StateRebuilding, lag(0)), true, `"reasons":[]`},
		"frozen": {replicator.ViewStatus{State: replicator.StateRebuilding, Frozen: true}, false,
			`"rebuilding: the view's contents are not kept up to date until the rebuild is done"`},
		"lag unknown":    {viewOf("v", replicator.StateRunning, nil), false, "its lag is unknown"},
		"failed":         {failed, false, `{"view":"f","sink":"main","reason":"failed: no table x"}`},
		"paused":         {viewOf("v", replicator.StatePaused, lag(0)), false, `"reason":"paused"`},
		"starting":       {viewOf("v", replicator.StateStarting, nil), false, "starting"},
		"filling at all": {viewOf("v", replicator.StateFilling, lag(0)), false, "filling"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := serve(t, "127.0.0.1:0", "",
				&program{views: []replicator.ViewStatus{viewOf("ok", replicator.StateRunning, lag(0)), c.view}}, nil)
			code, _, text := ask(t, s, "GET", "/readyz", "", nil)
			if (code == 200) != c.ready || code != 200 && code != 503 || !strings.Contains(text, c.want) {
				t.Errorf("%d %s", code, text)
			}
			if code, _, _ := ask(t, s, "GET", "/healthz", "", nil); code != 200 {
				t.Errorf("health is %d", code)
			}
		})
	}
	s, _ := serve(t, "127.0.0.1:0", "", &program{err: errors.New("store is gone")}, nil)
	if code, _, text := ask(t, s, "GET", "/readyz", "", nil); code != 503 || !strings.Contains(text, "store is gone") {
		t.Errorf("%d %s", code, text)
	}
}

func TestAProgramThatDrainsIsNotReady(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", "", &program{views: []replicator.ViewStatus{
		viewOf("ok", replicator.StateRunning, lag(0))}}, nil)
	s.Stopping()
	code, _, text := ask(t, s, "GET", "/readyz", "", nil)
	if code != 503 || !strings.Contains(text, `"reason":"stopping"`) {
		t.Errorf("%d %s", code, text)
	}
}
