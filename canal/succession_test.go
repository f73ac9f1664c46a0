package canal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A RESET deletes the file under a reader, and begins another one of its name. Once a further file is begun, the server
// leads the reader there: what the first holds would never be read.
func TestAFileOfAnotherLogIsNotReadOn(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		w := &world{bench: newBench(t, servertest.Own(t, kind, "--max-allowed-packet=64M")), gtid: true}
		w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1),
			"ALTER TABLE app.cell MODIFY body LONGBLOB")
		w.src = w.source(appTable())
		flush := func(n int) {
			for range n {
				w.write(1)
				w.exec("FLUSH BINARY LOGS")
			}
			w.write(1)
		}
		for name, anew := range map[string]func(*reading){
			"at the log's end": func(*reading) {
				w.reset()
				flush(1)
			},
			"at the log's end, of which little is left": func(*reading) {
				w.reset()
				flush(3)
				w.exec("PURGE BINARY LOGS TO '" + w.file() + "'")
			},
			"behind the end of a file": func(x *reading) {
				x.mu.Lock() // what follows stays at the server, as it is more than the kernel takes
				defer x.mu.Unlock()
				w.write(1)
				for range 3 {
					w.rows++
					w.exec(fmt.Sprintf("INSERT INTO app.cell(row_key, column_name, ref_key, body) "+
						"VALUES ('other', 'c', %d, REPEAT('x', 16000000))", 1000+w.rows))
				}
				w.exec("FLUSH BINARY LOGS")
				w.reset()
				flush(5)
			},
		} {
			t.Run(name, func(t *testing.T) {
				outer := w.bench.t
				w.bench.t = t
				defer func() { w.bench.t = outer }()
				w.reset()
				x := w.follows()
				last := w.rows + 4 // with those of the log that is read
				anew(x)
				if err := x.failure(); !errors.Is(err, replicator.ErrLost) {
					t.Errorf("reading ended: %v", err)
				}
				for _, c := range x.all() {
					if int(c.Version) > 1000+last {
						t.Errorf("read from another log: %s", shown(x.all()))
						break
					}
				}
				if d := w.which(x.reader.Position(x.last())); d.kinship != another && d.kinship != purged {
					t.Errorf("it would be read on from there: %d (%s)", d.kinship, d.why)
				}
			})
		}
	})
}
