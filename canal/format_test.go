package canal

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The program says that a source logs statements: at the start, and in the error about a statement without rows.
func TestAServerThatLogsStatementsIsNamedFirst(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec("CREATE TABLE a (id INT PRIMARY KEY, x INT)", "INSERT INTO a VALUES (1, 1)")
		var log bytes.Buffer
		table := replicator.Table{Name: "a", Database: b.database, Table: "a", Key: []string{"id"}}
		src := b.configured(Config{Tables: []replicator.Table{table},
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b.open(src, b.latest(src))
		if strings.Contains(log.String(), "binlog_format") {
			t.Errorf("a server that logs rows is warned of: %s", &log)
		}
		x := b.read(b.open(src, b.latest(src)))
		b.session("SET SESSION binlog_format = STATEMENT", "UPDATE a SET x = 2")
		if err := x.failure(); !errors.Is(err, replicator.ErrUnlogged) || strings.Contains(err.Error(), "SET GLOBAL") {
			t.Errorf("a session that logs statements, on a server that logs rows: %v", err)
		}
		for _, format := range []string{"MIXED", "STATEMENT"} {
			x := b.read(b.open(src, b.latest(src)))
			b.exec("SET GLOBAL binlog_format = " + format)
			b.session("SET SESSION binlog_format = "+format, "UPDATE a SET x = x + 1")
			err := x.failure()
			if !errors.Is(err, replicator.ErrUnlogged) || !replicator.IsOfViews(err) ||
				!strings.Contains(err.Error(), ": binlog_format is "+format+" on the source: SET GLOBAL binlog_format = ROW") {
				t.Errorf("%s: %v", format, err)
			}
			if got := src.Stats().Format; got != format {
				t.Errorf("%s: the source's stats say %q", format, got)
			}
			log.Reset()
			b.open(src, b.latest(src))
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "binlog_format="+format) ||
				!strings.Contains(log.String(), "SET GLOBAL binlog_format = ROW") {
				t.Errorf("%s: at the start it says %q", format, &log)
			}
		}
	})
}
