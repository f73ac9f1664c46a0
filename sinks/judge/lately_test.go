package judge_test

import (
	"testing"

	"replicator/sinks/judge"
)

func TestWhatWasWrittenLatelyIsRememberedWithinBounds(t *testing.T) {
	l := judge.NewLately[int, string](10)
	for i := range 100 {
		l.Note(i, "written")
	}
	l.Forget(99)
	held := 0
	for i := range 100 {
		_, ok := l.Get(i)
		if i >= 90 && i < 99 && !ok {
			t.Errorf("%d is forgotten", i)
		}
		if ok {
			held++
		}
	}
	if held > 20 {
		t.Errorf("%d are remembered, more than twice 10", held)
	}
	if _, ok := l.Get(99); ok {
		t.Error("what was to be forgotten is remembered")
	}
}

func TestNewnessIsGuessedByWhatWasLately(t *testing.T) {
	var n judge.Novelty
	if n.Likely() {
		t.Error("likely although nothing is known")
	}
	n.Learn(0, 0)
	n.Learn(10, 0)
	if !n.Likely() {
		t.Error("unlikely although all were new")
	}
	for range 3 {
		n.Learn(1, 9)
	}
	if n.Likely() {
		t.Error("likely although most were not new")
	}
}
