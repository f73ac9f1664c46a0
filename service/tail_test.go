package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Thousands of statements are logged as text. The tail prints only a few lines: one for the first statement, then a
// count each minute.
func TestStatementsLoggedAsTextAreCounted(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var a absences
	now, why := time.Now(), errors.New("a statement was logged as text")
	for range 9000 {
		a.say(log, "orders", why, now)
		a.say(log, "items", why, now)
		now = now.Add(10 * time.Millisecond)
	}
	a.end(log)
	if n := strings.Count(out.String(), "this output is incomplete"); n != 6 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	for _, want := range []string{"table=orders count=1 ", "table=orders count=6000 ", "table=orders count=2999 ", "table=items count=1 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %s:\n%s", want, out.String())
		}
	}
}
