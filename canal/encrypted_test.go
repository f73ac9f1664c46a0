package canal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestAnEncryptedBinlogIsReadOn: MariaDB sends an event about the encryption after the beginning of each file, even if
// the dump starts at a later log position. The check that the log is still the same must cope with this event.
func TestAnEncryptedBinlogIsReadOn(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MariaDB1011, servers.MariaDB118} {
		t.Run(string(kind), func(t *testing.T) {
			keys := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(keys, []byte("1;"+strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, servertest.Own(t, kind, "--plugin-load-add=file_key_management",
				"--file-key-management-filename="+keys, "--encrypt-binlog=ON"))
			b.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
			src := b.source(appTable())
			at := b.latest(src) // the loop also tests positions at a file's beginning
			for n := range 6 {
				if n%2 == 1 {
					b.exec("FLUSH BINARY LOGS")
					at = b.latest(src)
				}
				r, err := src.Open(testContext(t), []replicator.Position{at})
				if err != nil {
					t.Fatalf("after %d: %v", n, err)
				}
				x := b.read(r.(*Reader))
				b.exec(fmt.Sprintf(appCell, 2*n+1), "FLUSH BINARY LOGS", fmt.Sprintf(appCell, 2*n+2))
				x.upTo(b.latest(src))
				x.end() // only the goroutine that reads may call stillSame, so reading must have ended
				if err := x.reader.stillSame(testContext(t)); err != nil {
					t.Errorf("in the log that was read: %v", err)
				}
				at = x.reader.Position(x.last())
			}
		})
	}
}
