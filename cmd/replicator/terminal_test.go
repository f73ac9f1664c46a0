package main

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestATableFitsTheTerminal(t *testing.T) {
	g := grid{header: []string{"view", "state", "position"}}
	g.add([]painted{{"orders_by_customer", plain}, {"failed", red}, {"mysql-bin.000042:73829104", plain}},
		painted{"sink main: Table 'app.orders_by_customer' doesn't exist: `replicator schema` prints it", red})
	g.add([]painted{{"人々", plain}, {"running", green}, {"-", plain}})
	for _, columns := range []int{1, 5, 20, 40, 53, 80, 200} {
		for _, colour := range []bool{false, true} {
			lines := g.lines(columns, colour)
			for _, line := range lines {
				bare := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(line, "")
				if (bare != line) && !colour {
					t.Errorf("coloured: %q", line)
				}
				if n := columnsOf(bare); n > max(columns, 3) {
					t.Errorf("%d columns on a terminal of %d: %q", n, columns, bare)
				}
			}
		}
	}
	if got := strings.Join(g.lines(80, false), "\n"); got != `VIEW                STATE    POSITION
orders_by_customer  failed   mysql-bin.000042:73829104
  sink main: Table 'app.orders_by_customer' doesn't exist: `+"`replicator schema`"+`
  prints it
人々                running  -` {
		t.Errorf("on 80 columns:\n%s", got)
	}
	if got := strings.Join(g.lines(20, false), "\n"); got != `orders_by_customer
  state failed
  position mysql-bi…
  sink main: Table
  'app.orders_by_cus
  tomer' doesn't
  exist:
  `+"`replicator"+`
  schema`+"`"+` prints it
人々
  state running` {
		t.Errorf("on 20 columns:\n%s", got)
	}
	if n := len(g.lines(0, false)); n != 4 {
		t.Errorf("where there is no limit, %d lines", n)
	}
}

func TestWhatATerminalWouldObeyIsShown(t *testing.T) {
	if got := visible("a\x1b[2Jb\tc\nd\u009be\xff"); got != "a·[2Jb c d·e·" {
		t.Errorf("%q", got)
	}
	if got := cut("人々人々", 5) + cut("ab", 2) + cut("abc", 2); got != "人々…aba…" {
		t.Error(got)
	}
}

// Durations are text in every log format. By default, JSON would show nanoseconds.
func TestDurationsAreTextsInTheLog(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: new(options).readable})).
		Info("pipeline recovered", "after", 62*time.Second+500*time.Millisecond)
	if !strings.Contains(out.String(), `"after":"1m2.5s"`) {
		t.Error(out.String())
	}
}
