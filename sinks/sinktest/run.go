package sinktest

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"replicator"
)

var (
	histories = flag.Int("sinktest.histories", 0, "how many random histories to try; 0: as many as the test wants")
	oneSeed   = flag.Uint64("sinktest.seed", 0, "try only the history of this seed")
)

// Run tests that a sink keeps the contract of package replicator: first with single calls, then with random histories.
func Run(t *testing.T, s Subject) {
	t.Helper()
	t.Run("contract", func(t *testing.T) { contract(t, &s) })
	t.Run("histories", func(t *testing.T) { runHistories(t, &s) })
}

// RunHistories runs only the random histories. It is for a subject whose calls sometimes fail and are repeated, which
// tests of a single call don't allow.
func RunHistories(t *testing.T, s Subject) {
	t.Helper()
	runHistories(t, &s)
}

func runHistories(t *testing.T, s *Subject) {
	env := newEnvironment(t, s)
	n := s.Histories
	if *histories > 0 {
		n = *histories
	}
	if testing.Short() {
		n = min(n, 50)
	}
	seeds := rand.Uint64
	if *oneSeed != 0 {
		n, seeds = 1, func() uint64 { return *oneSeed }
	}
	end := time.Now().Add(soak(t))
	tried := 0
	for ; tried < n || time.Now().Before(end) && *oneSeed == 0; tried++ {
		seed := seeds()
		if err := env.simulate(t.Context(), seed); err != nil {
			t.Fatalf("history %d (repeat with -sinktest.seed=%d): %v", seed, seed, err)
		}
	}
	t.Logf("%d histories", tried)
}

// soak returns the minimum time for which to run histories, from REPLICATOR_SOAK (see `make soak`).
func soak(t testing.TB) time.Duration {
	text := os.Getenv("REPLICATOR_SOAK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("REPLICATOR_SOAK: %v", err)
	}
	return d
}

// writers is how many targets the random histories (see the package comment) open, each as another process would.
const writers = 2

// firstOrder is the lowest log position of the random histories. The tests of single calls use lower positions.
const firstOrder = 1 << 32

func newEnvironment(t testing.TB, s *Subject) *environment {
	env := &environment{t: t, subject: s, base: firstOrder}
	for range writers {
		env.targets = append(env.targets, open(t, s, "", s.Views))
	}
	sink := s.New(t)
	marks, err := sink.Marks(t.Context(), "")
	if err := errors.Join(err, sink.Close()); err != nil {
		t.Fatalf("Marks: %v", err)
	}
	for _, m := range marks { // begin above earlier marks: the sink may have forgotten cells deleted below them
		env.base = max(env.base, m.Position.Order+1)
	}
	begin := replicator.Standing{Position: replicator.Position{Order: env.base, Token: "begin"},
		Fill: map[string]replicator.Progress{}}
	for _, target := range env.targets {
		if err := target.Mark(t.Context(), begin); err != nil {
			t.Fatalf("Mark: %v", err)
		}
	}
	return env
}

// open opens the subject's sink again. The sink is closed at the end of the test.
func open(t testing.TB, s *Subject, source string, views []*replicator.View) replicator.Target {
	t.Helper()
	sink := s.New(t)
	target, err := sink.Open(t.Context(), source, views)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Errorf("closing a sink: %v", err)
		}
	})
	return target
}
