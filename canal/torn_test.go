package canal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// When a server dies, its file may end within the first event of a transaction, within the last event, or between two
// events. Then the transaction was not committed, and reading continues without an operator.
func TestAFileThatEndsWithinATransactionIsLeftBehind(t *testing.T) {
	const commit = 19 + 8 + 4 // bytes of a transaction's last event
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		w := &world{bench: newBench(t, servertest.Own(t, kind)), gtid: true}
		w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		w.src = w.source(appTable())
		at := w.latest(w.src)
		for name, c := range map[string]struct {
			end       func(begin, end int64) int64
			handedOut bool
		}{
			"within its first event": {func(begin, _ int64) int64 { return begin + 10 }, false},
			"within its last event":  {func(_, end int64) int64 { return end - 5 }, true},
			"before its last event":  {func(_, end int64) int64 { return end - commit }, true},
		} {
			x := w.read(w.open(w.src, at))
			w.write(1)
			x.upTo(w.latest(w.src))
			at = x.reader.Position(x.last())
			x.end()
			w.write(1)
			lost := int64(1000 + w.rows)
			file := w.file()
			_, _, begin := splitOrder(at.Order)
			_, _, end := splitOrder(w.latest(w.src).Order)
			if !kind.IsMariaDB() { // MariaDB truncates only its last file
				w.exec("FLUSH BINARY LOGS")
			}
			if err := w.server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(w.data(), file), c.end(begin, end)); err != nil {
				t.Fatal(err)
			}
			w.restart()
			w.session("SET sql_log_bin = 0", fmt.Sprintf("DELETE FROM app.cell WHERE ref_key = %d", lost))

			var want []string
			x = w.read(w.open(w.src, at))
			if c.handedOut {
				var torn *tornError
				if err := x.failure(); !errors.As(err, &torn) || replicator.IsFatal(err) || errors.Is(err, replicator.ErrLost) {
					t.Fatalf("%s: reading ended with %v", name, err)
				}
				if got := x.all(); len(got) != 1 || got[0].Version != lost {
					t.Errorf("%s: first read: %s", name, shown(got))
				}
				want = append(want, fmt.Sprintf("delete v%d", int64(replicator.AnyVersion)))
				x = w.read(w.open(w.src, at))
			}
			x.upTo(w.latest(w.src))
			behind := x.reader.Position(x.last())
			w.write(1)
			want = append(want, fmt.Sprintf("insert v%d", lost+1))
			var got []string
			for _, change := range x.upTo(w.latest(w.src)) {
				got = append(got, fmt.Sprintf("%s v%d", change.Kind, change.Version))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: read %v, want %v", name, got, want)
			}
			at = x.reader.Position(x.last())
			x.end()

			// Another run of the program can continue after the file's end, and after later changes.
			if more := w.changes(w.source(appTable()), behind); len(more) != 1 || more[0].Version != lost+1 {
				t.Errorf("%s: read on: %s", name, shown(more))
			}
			w.write(1)
			if more := w.changes(w.source(appTable()), at); len(more) != 1 || more[0].Version != lost+2 {
				t.Errorf("%s: read on: %s", name, shown(more))
			}
		}
	})
}

// If a server died, its tables may lack transactions that its binlog has. If it was stopped, or began another file in
// the normal way, they lack nothing.
func TestASourceThatDiedIsToldOfAndOneThatWasStoppedIsNot(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		w := &world{bench: newBench(t, servertest.Own(t, kind, "--innodb-flush-log-at-trx-commit=0")), gtid: true}
		w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		var log bytes.Buffer
		read := func(from replicator.Position) string {
			log.Reset()
			src := w.configured(Config{Heartbeat: time.Second, Tables: []replicator.Table{appTable()},
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			w.changes(src, from)
			return log.String()
		}
		const said = "the source died"
		w.src = w.source(appTable())
		from := w.latest(w.src)
		w.write(1)
		w.exec("FLUSH BINARY LOGS")
		w.write(1)
		if err := w.server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.restart()
		if text := read(from); strings.Contains(text, said) {
			t.Errorf("after a stop it says %s", text)
		}
		from = w.latest(w.src)
		w.write(1)
		if err := w.server.Kill(); err != nil {
			t.Fatal(err)
		}
		w.restart()
		if text := read(from); strings.Count(text, said) != 1 || !strings.Contains(text, "verify --repair") {
			t.Errorf("after the server was killed it says %q", text)
		}
		var found []string
		for _, f := range w.src.Check(testContext(t)) {
			found = append(found, fmt.Sprint(f.Level, " ", f.What))
		}
		if !slices.Contains(found, "warn innodb_flush_log_at_trx_commit") {
			t.Errorf("check finds %q", found)
		}
	})
}
