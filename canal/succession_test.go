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

// A RESET deletes the file that is being read, and begins another file of the same name. Once the next file begins, the
// server continues with that one, so the new first file would never be read.
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
				x.mu.Lock() // the rest stays at the server, because the kernel's buffers can't hold it
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
				last := w.rows + 4 // the rows so far and those still written to the log being read
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

// A position names the file of the rows that were delivered, even while they are being delivered. That holds for rows
// from the log, and for rows that a query found while the log had not been read that far.
func TestAPositionNamesTheFileOfWhatWasHandedOut(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		w := &world{bench: newBench(t, servertest.Own(t, kind)), gtid: true}
		w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1),
			"CREATE TABLE app.other (id INT PRIMARY KEY)")
		w.src = w.source(appTable())
		start := w.latest(w.src)
		w.write(1)
		w.exec("FLUSH BINARY LOGS", "INSERT INTO app.other VALUES (1)", "FLUSH BINARY LOGS")
		w.write(2)
		k, err := replicator.MakeKey("k")
		if err != nil {
			t.Fatal(err)
		}
		for name, handOut := range map[string]func(r *Reader, named func()) error{
			"by the log": func(r *Reader, named func()) error {
				rec := newRecorder()
				rec.arrives = func() {
					if len(rec.changes) > 0 {
						named()
					}
				}
				x := w.readInto(r, rec)
				defer x.end()
				if all := x.upTo(w.latest(w.src)); len(all) != 3 {
					return fmt.Errorf("%d changes were read", len(all))
				}
				return nil
			},
			"by a re-read": func(r *Reader, named func()) error {
				_, _, err := r.Newest(t.Context(), []replicator.Cell{{Table: "cell", Key: k, Column: "c"}}, 0)
				named()
				return err
			},
			"by a scan": func(r *Reader, named func()) error {
				_, err := r.Scan(t.Context(), "cell", nil, "", replicator.ScanLimit{Rows: 10})
				named()
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				r, calls := w.open(w.src, start), 0
				before := r.File()
				err := handOut(r, func() {
					calls++
					p := r.Position(start.Order)
					at, err := parseToken(p.Token)
					if err != nil || at.Read == nil || at.Read.File != w.file() || at.Read.Born == 0 {
						t.Errorf("the position is %s, %v", p.Token, err)
					}
					if p.Order != start.Order || r.File() != before+2 {
						t.Errorf("the position is of %d, want %d; the files are %d and %d", p.Order, start.Order, before, r.File())
					}
					if d := w.which(p); d.kinship != theSame {
						t.Errorf("it would not be read on from there: %d (%s)", d.kinship, d.why)
					}
				})
				if err != nil || calls == 0 {
					t.Errorf("it was handed out %d times, %v", calls, err)
				}
			})
		}
	})
}
