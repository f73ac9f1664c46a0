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

// enlarge writes an event that is larger than the server's max_allowed_packet for sessions.
func (w *world) enlarge(settings ...string) {
	w.t.Helper()
	w.rows++
	w.session(append(settings, fmt.Sprintf("INSERT INTO app.cell(row_key, column_name, ref_key, body) "+
		"VALUES ('large', 'c', %d, REPEAT('a', 700000))", 1000+w.rows),
		fmt.Sprintf("UPDATE app.cell SET body = REPEAT('b', 700000) WHERE ref_key = %d", 1000+w.rows))...)
}

// silent expects that each position has the transactions before it, and checks whether the server reports them.
func (w *world) silent(at map[string]replicator.Position, want bool) {
	w.t.Helper()
	for name, p := range at {
		tok, err := parseToken(p.Token)
		if err != nil {
			w.t.Fatal(err)
		}
		_, known, err := gtidAt(testContext(w.t), w.db, tok.File, tok.Pos)
		if err != nil || known == want || tok.GTID == "" {
			w.t.Errorf("a position %s has %q; the server tells: %t, %v", name, tok.GTID, known, err)
		}
	}
}

// MariaDB does not report the GTIDs at a position if an earlier event in the file, of any table, is larger than
// max_allowed_packet. Reading continues there anyway, and a lost log is still noticed.
func TestALogIsKnownBehindAnEventThatTheServerRefusesToRead(t *testing.T) {
	for kind, args := range map[servers.Kind][]string{servers.MariaDB1011: nil,
		servers.MariaDB118: {"--binlog-gtid-index=OFF"}} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := &world{bench: newBench(t, servertest.Own(t, kind, append(args, "--max-allowed-packet=1M")...)),
				gtid: true}
			w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1),
				"ALTER TABLE app.cell MODIFY body LONGBLOB")
			w.src = w.source(appTable())
			for _, c := range behindSilence {
				t.Run(c.name, func(t *testing.T) {
					outer := w.bench.t
					w.bench.t = t
					defer func() { w.bench.t = outer }()
					w.reset()
					w.enlarge()
					c.test(w)
				})
			}
		})
	}
}

// behindSilence are the events that can happen to a server whose log has such a large event.
var behindSilence = []struct {
	name string
	test func(w *world)
}{
	{"nothing", func(w *world) {
		at := w.positions()
		r := w.open(w.src, at["bare"])
		at["opened"] = r.Position(r.Start().Order)
		w.silent(at, true)
		w.goesOn(at, theSame)
	}},
	{"restarted", func(w *world) {
		at := w.positions()
		w.restart()
		w.silent(at, true)
		w.goesOn(at, theSame)
	}},
	{"rotated", func(w *world) {
		w.exec("FLUSH BINARY LOGS")
		at := w.positions()
		w.silent(at, false)
		w.goesOn(at, theSame)
	}},
	{"cut off from a reader", func(w *world) {
		x := w.follows()
		rows, err := w.db.Query("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
		if err != nil {
			w.t.Fatal(err)
		}
		if err := eachRow(rows, func() (err error) {
			var id int
			if err = rows.Scan(&id); err == nil {
				_, _ = w.db.Exec(fmt.Sprintf("KILL %d", id)) // a connection of a look at the log may already be gone
			}
			return err
		}); err != nil {
			w.t.Fatal(err)
		}
		at := map[string]replicator.Position{"cut off": w.cutOff(x)}
		w.silent(at, true)
		w.goesOn(at, theSame)
	}},
	// A position must not have GTIDs that come after it, because reading from it would fail.
	{"written to meanwhile", func(w *world) {
		x := w.follows()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					_, _ = w.db.Exec(fmt.Sprintf(
						"INSERT INTO app.cell(row_key, column_name, ref_key) VALUES ('m', 'c', %d)", n))
				}
			}
		}()
		defer func() { close(stop); <-stopped }()
		for range 20 {
			end := w.latest(w.src)
			x.upTo(end)
			from := w.read(w.open(w.src, end))
			from.upTo(end)
			from.end()
		}
	}},
	{"replaced by one with all", func(w *world) {
		at := w.positions()
		w.exec("SET GLOBAL server_id = @@GLOBAL.server_id + 1")
		w.goesOn(at, heir)
		at = w.positions()
		w.silent(at, true)
		w.goesOn(at, theSame)
	}},
	{"reset", func(w *world) {
		at := w.positions()
		w.reset()
		w.enlarge()
		w.stays(at, another)
	}},
	{"reset, and the file begun in the same second", func(w *world) {
		at := w.positions()
		file, born := w.file(), w.which(at["kept up"]).born
		w.reset()
		w.backdate(file, born)
		w.enlarge()
		w.stays(at, another)
	}},
	{"reset in the second in which it began", func(w *world) { // only the log's contents show the difference
		for name, write := range map[string]func(){
			"other transactions end there": func() { w.enlarge("SET gtid_domain_id = 5") },
			"no transaction ends there":    func() { w.exec("CREATE DATABASE longer_than_a_row"); w.enlarge() },
		} {
			end := w.latest(w.src)
			file, born := w.file(), w.which(end).born
			w.reset()
			w.backdate(file, born)
			write()
			w.enlarge()
			w.write(3)
			w.silent(map[string]replicator.Position{"afterwards": w.latest(w.src)}, true)
			x := w.read(w.open(w.src, end))
			if err := x.failure(); !errors.Is(err, replicator.ErrLost) || len(x.all()) > 0 {
				w.t.Errorf("where %s: %v, %v", name, err, shown(x.all()))
			}
			w.exec("DROP DATABASE IF EXISTS longer_than_a_row")
			w.reset()
			w.enlarge()
		}
	}},
}
