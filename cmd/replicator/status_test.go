package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/server"
)

// inProcess runs a command line in the test's own process.
func inProcess(t *testing.T, args ...string) (out, warnings string, err error) {
	t.Helper()
	var printed, said bytes.Buffer
	root := newRoot()
	root.SetOut(&printed)
	root.SetErr(&said)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return printed.String(), said.String(), err
}

// theseViews is a Controller with these views.
type theseViews struct {
	server.Controller
	views []replicator.ViewStatus
}

func (v theseViews) Status(context.Context) ([]replicator.ViewStatus, error) { return v.views, nil }

// serving starts a server that reports the views. It returns a configuration file with its address.
func serving(t *testing.T, views ...replicator.ViewStatus) (file string) {
	t.Helper()
	s, err := server.Listen("127.0.0.1:0", "", theseViews{views: views}, server.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	file = filepath.Join(t.TempDir(), "replicator.toml")
	text := strings.NewReplacer("${DSN}", "u@tcp(127.0.0.1:1)/app", "${LISTEN}", s.Addr()).Replace(cellViews)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// manyViews returns twenty views. Five of them have the same error.
func manyViews() (views []replicator.ViewStatus) {
	lag := 1234.5
	for i := range 20 {
		v := replicator.ViewStatus{View: fmt.Sprintf("orders_by_customer_%d", i), Sink: "search", Kind: "document",
			State: replicator.StateRunning, Position: "mysql-bin.000042:73829104", LagSeconds: &lag, Rate: 1000.5}
		if i%4 == 0 {
			v.State, v.Error = replicator.StateRetrying, "sink search: "+strings.Repeat("connection refused ", 30)+"the end"
			v.ErrorSince = time.Now()
		}
		views = append(views, v)
	}
	return views
}

func TestStatusIsATableOn80ColumnsWithOneLineForEachCause(t *testing.T) {
	views := manyViews()
	for _, columns := range []int{60, 80, 120, 200} {
		lines := statusLines(views, "", columns, false)
		if n := len(views) + 5; len(lines) != n { // header, blank line, error, command, manual
			t.Errorf("on %d columns %d lines, not %d:\n%s", columns, len(lines), n, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if n := columnsOf(line); n > columns {
				t.Errorf("%d columns on a terminal of %d: %q", n, columns, line)
			}
		}
	}
	text := strings.Join(statusLines(views, "", 0, false), "\n")
	if n := strings.Count(text, "the end"); n != 1 {
		t.Errorf("the error of five views is shown %d times:\n%s", n, text)
	}
	if !strings.Contains(text, "orders_by_customer_0, orders_by_customer_4, ") {
		t.Errorf("its views are not named:\n%s", text)
	}
}

// The status table alone must tell an operator which command lists the rows that a view lacks.
func TestStatusNamesTheCommandThatListsDeadLetters(t *testing.T) {
	v := replicator.ViewStatus{View: "a", State: replicator.StateRunning, DeadLetters: 1}
	text := strings.Join(statusLines([]replicator.ViewStatus{v}, "/etc/r.toml", 0, false), "\n")
	if !strings.Contains(text, "`replicator deadletters list -c /etc/r.toml`") || strings.Contains(text, seeManual) {
		t.Error(text)
	}
	v.DeadLetters, v.Error = 0, "a cause"
	text = strings.Join(statusLines([]replicator.ViewStatus{v}, "", 0, false), "\n")
	if strings.Contains(text, "deadletters") || !strings.Contains(text, seeManual) {
		t.Error(text)
	}
}

func TestStatusOfAViewShowsAllWithWhatHappensNext(t *testing.T) {
	file := serving(t, manyViews()...)
	out, _, err := inProcess(t, "status", "orders_by_customer_4", "-c", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"orders_by_customer_4", "retrying", "document in sink search", "the end", "tried again"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "orders_by_customer_8") {
		t.Errorf("another view is shown:\n%s", out)
	}
	if _, _, err := inProcess(t, "status", "orders_by_customer_44", "-c", file); err == nil ||
		!strings.Contains(err.Error(), `did you mean "orders_by_customer_4"`) {
		t.Error(err)
	}
}

// While an operator edits the file, status and plan still ask the running program.
func TestStatusAndPlanAskTheRunningProgramThroughAFileThatIsBroken(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"a syntax error":  func(text string) string { return text + "\n[views.new\n" },
		"an unknown word": func(text string) string { return strings.ReplaceAll(text, "kind", "kinds") },
	} {
		t.Run(name, func(t *testing.T) {
			file := serving(t, manyViews()...)
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, []byte(edit(string(text))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			out, said, err := inProcess(t, "status", "-c", file)
			if err != nil || !strings.Contains(out, "orders_by_customer_19") {
				t.Errorf("%v\n%s", err, out)
			}
			if !strings.Contains(said, "replicator.toml:") {
				t.Errorf("what is wrong with the file is not said: %q", said)
			}
			out, _, err = inProcess(t, "plan", "-c", file)
			usage := usageError{}
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), "replicator.toml:") {
				t.Errorf("plan does not fail by what is wrong with the file: %v", err)
			}
			if n := strings.Count(out, "unchanged"); n != 20 {
				t.Errorf("plan shows %d views as unchanged, want 20:\n%s", n, out)
			}
		})
	}
}

// status shows once, for all views with the same text, that they are being compared. It also names the setting that
// causes the comparisons.
func TestStatusSaysWhatIsComparedAndWhy(t *testing.T) {
	views := []replicator.ViewStatus{
		{View: "a", Verifying: true, Format: "MIXED"}, {View: "b", Verifying: true},
		{View: "c", Verifying: true, Format: "MIXED"}, {View: "d"},
	}
	text := strings.Join(comparedLines(views, 0), "\n")
	for _, want := range []string{"a and 1 more: compared with the source again and again, because its " +
		"binlog_format is MIXED. SET GLOBAL binlog_format = ROW", "\nb: being compared with the source"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("not once %q in:\n%s", want, text)
		}
	}
}
