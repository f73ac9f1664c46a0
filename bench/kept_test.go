package main

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestHashesAndDocumentsEndAsTheWorkloadSays(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it four times")
	}
	t.Parallel()
	program := linked(t)
	for name, entities := range map[string]int{"redis": 1250, "elastic": 500} {
		t.Run(name, func(t *testing.T) {
			l := quickLab(t, servers.MySQL, program, "-only", name)
			if err := l.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"new-" + name: entities, "update-" + name: entities}
			checkRows(t, l, want)
			for _, r := range l.results {
				if want[r.Stage] > 0 && (r.OfRaw <= 0 || r.SinkCPU < 0) {
					t.Errorf("%s is not compared with its raw limit: %+v", r.Stage, r)
				}
			}
		})
	}
}

func TestAServerThatThisMachineCannotHaveIsLeftOut(t *testing.T) {
	l := quickLab(t, servers.MySQL, "", "-only", "elastic", "-cells", "10")
	others := l.start
	l.start = func(ctx context.Context, kind servers.Kind) (*servers.Server, error) {
		if kind == servers.Elasticsearch {
			return nil, &servers.MissingError{Kind: kind}
		}
		return others(ctx, kind)
	}
	if err := l.run(t.Context()); err != nil || len(l.leftOut) != 1 ||
		!strings.Contains(l.leftOut[0], string(servers.Elasticsearch)) {
		t.Errorf("%v; left out: %q", err, l.leftOut)
	}
}

// A sink with a wrong value must give an error, not a figure.
func TestHashesAreComparedWithTheWorkload(t *testing.T) {
	s := servertest.Own(t, servers.Redis7, serverArgs(servers.Redis7)...)
	h, err := openHashes(s)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	w := &workload{entities: 10, body: 250, begin: 1, order: round}
	users := make([]user, w.entities)
	for i := range users {
		users[i] = w.user(w.at(i))
	}
	key := func(entity int) string { k := w.key(entity); return hashPrefix + hex.EncodeToString(k[:]) }
	for _, c := range []struct {
		name, problem string
		change        func() error
	}{
		{"nothing", "", func() error { return nil }},
		{"missing", "is map[], not", func() error { return h.rdb.Del(t.Context(), key(3)).Err() }},
		{"wrong", "other", func() error { return h.rdb.HSet(t.Context(), key(3), "email", "other").Err() }},
		{"too many", "11 hashes for 10", func() error {
			return h.rdb.HSet(t.Context(), hashPrefix+"x",
				"email", "other").Err()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(h.drop(t.Context()), h.write(t.Context(), users), c.change()); err != nil {
				t.Fatal(err)
			}
			_, err := h.verify(t.Context(), w, w.entities)
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("verify says %v, and should say %q", err, c.problem)
			}
		})
	}
}
