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

// A further file is told before its first change, and by then a position says that it was read. Files without changes
// are not told.
func TestAFurtherFileIsToldBeforeItsFirstChange(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		w := &world{bench: newBench(t, servertest.Own(t, kind)), gtid: true}
		w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1),
			"CREATE TABLE app.other (id INT PRIMARY KEY)")
		w.src = w.source(appTable())
		start := w.latest(w.src)
		w.write(1)
		w.exec("FLUSH BINARY LOGS", "INSERT INTO app.other VALUES (1)", "FLUSH BINARY LOGS")
		w.write(2)
		r, rec := w.open(w.src, start), newRecorder()
		var told []replicator.Position
		var before int
		rec.newFile = func() { told, before = append(told, r.Position(start.Order)), len(rec.all()) }
		x := w.readInto(r, rec)
		all := x.upTo(w.latest(w.src))
		x.end()
		if len(all) != 3 || len(told) != 1 || before != 1 {
			t.Fatalf("%d changes were read, %d files were told, the last one after %d changes", len(all), len(told), before)
		}
		at, err := parseToken(told[0].Token)
		if err != nil || at.Read == nil || at.Read.File != w.file() || at.Read.Born == 0 {
			t.Errorf("the position is %s, %v", told[0].Token, err)
		}
		if d := w.which(told[0]); d.kinship != theSame {
			t.Errorf("it would not be read on from there: %d (%s)", d.kinship, d.why)
		}
	})
}
