package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A MariaDB that crashes during a write leaves a binlog file that ends within a transaction, and never repairs this
// file.
func TestWhatATornBinlogTookBackLeavesTheViews(t *testing.T) {
	t.Parallel()
	const commit = 31 // bytes of the transaction's last event
	for name, missing := range map[string]int64{"within an event": 5, "between two events": commit} {
		t.Run(name, func(t *testing.T) {
			source := servertest.Own(t, servers.MariaDB1011)
			l := newLab(t, source)
			l.put("a", 1, `{"username": "kept", "email": "a@x.org", "phone": 1}`)
			l.must("run", "--until-caught-up")
			file := filepath.Join(source.Dir, "data", strings.Fields(l.rows("SHOW MASTER STATUS")[0])[0])
			l.put("b", 1, `{"username": "lost", "email": "b@x.org", "phone": 2}`)
			if err := source.Kill(); err != nil {
				t.Fatal(err)
			}
			written, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, written.Size()-missing)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := source.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.session("SET sql_log_bin = 0", "DELETE FROM cell WHERE row_key = 0x"+keyText("b"))
			l.running()
			l.caughtUp() // nothing else is written
			eventually(t, func() error {
				got := strings.Join(l.rows("SELECT username FROM users"), ", ")
				return as(got == "kept", "users are "+got)
			})
			l.must("verify")
		})
	}
}
