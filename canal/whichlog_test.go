package canal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// world is a server that the tests restart, reset, restore and so on.
type world struct {
	*bench
	src  *Source
	gtid bool
	rows int
	kept string // a copy of the server's data
}

// write writes n rows, all of the same size.
func (w *world) write(n int) {
	w.t.Helper()
	for range n {
		w.rows++
		w.exec(fmt.Sprintf("INSERT INTO app.cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', %d, '')",
			1000+w.rows))
	}
}

func (w *world) restart() {
	w.t.Helper()
	if err := w.server.Restart(testContext(w.t)); err != nil {
		w.t.Fatal(err)
	}
}

// data returns the folder of the server's data.
func (w *world) data() string { return filepath.Join(w.server.Dir, "data") }

// keep makes a copy of the server's data, like a backup or a snapshot.
func (w *world) keep() (kept string) {
	w.t.Helper()
	if err := w.server.Kill(); err != nil {
		w.t.Fatal(err)
	}
	kept = filepath.Join(w.server.Dir, "kept")
	if err := os.RemoveAll(kept); err != nil {
		w.t.Fatal(err)
	}
	w.copy(kept, w.data())
	w.restart()
	return kept
}

// restore replaces the server's data by a copy, without the files that match a pattern.
func (w *world) restore(kept, without string) {
	w.t.Helper()
	if err := w.server.Kill(); err != nil {
		w.t.Fatal(err)
	}
	if err := os.RemoveAll(w.data()); err != nil {
		w.t.Fatal(err)
	}
	w.copy(w.data(), kept)
	if without != "" {
		w.remove(without)
	}
	w.restart()
}

func (w *world) remove(pattern string) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.data(), pattern))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) copy(to, from string) {
	w.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reset() {
	w.t.Helper()
	if w.isMaria() {
		w.exec("RESET MASTER")
	} else {
		w.exec("RESET BINARY LOGS AND GTIDS")
	}
}

// positions returns positions that a checkpoint may hold at the log's current end. They are from a view that has
// followed the log, from a view that was only filled, and from a reader that has read nothing yet.
func (w *world) positions() map[string]replicator.Position {
	w.t.Helper()
	bare := w.latest(w.src)
	x := w.read(w.open(w.src, bare))
	x.upTo(bare)
	filled := x.reader.Position(x.last())
	x.end()
	w.write(3)
	x = w.read(w.open(w.src, filled))
	x.upTo(w.latest(w.src))
	x.end()
	kept := x.reader.Position(x.last())
	bare = w.latest(w.src)
	x = w.read(w.open(w.src, bare))
	x.upTo(bare)
	x.end()
	return map[string]replicator.Position{"kept up": kept, "filled": x.reader.Position(x.last()), "bare": bare}
}

func (w *world) which(p replicator.Position) ruling {
	w.t.Helper()
	conn, srv, err := w.src.connect(testContext(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	r, err := newResolver(testContext(w.t), w.src, conn, srv)
	if err != nil {
		w.t.Fatal(err)
	}
	tok, err := parseToken(p.Token)
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := r.judge(testContext(w.t), tok)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// expect checks the ruling on each position, and what Open returns for it.
func (w *world) expect(when string, at map[string]replicator.Position, want kinship) {
	w.t.Helper()
	for name, p := range at {
		d := w.which(p)
		if d.kinship != want {
			w.t.Errorf("%s, a position %s: %d (%s), want %d", when, name, d.kinship, d.why, want)
			continue
		}
		r, err := w.src.Open(testContext(w.t), []replicator.Position{p})
		if err == nil {
			r.Close()
		}
		goesOn := want == theSame || want == heir
		if goesOn != (err == nil) || want != stranger && !goesOn && !errors.Is(err, replicator.ErrLost) {
			w.t.Errorf("%s, a position %s: %v", when, name, err)
		}
	}
}

// stays expects that the positions are refused, however many transactions the server writes: while its log ends before,
// at and after the position.
func (w *world) stays(at map[string]replicator.Position, want kinship) {
	w.t.Helper()
	// Births have a resolution of one second. If two files began in the same second, only what was read tells them
	// apart.
	delete(at, "bare")
	w.expect("at first", at, want)
	first := at["kept up"]
	for i := 0; ; i++ {
		end := w.latest(w.src)
		if _, file, pos := splitOrder(end.Order); i > 3 && orderOf(0, file, pos) > first.Order {
			break
		}
		w.write(1)
		w.expect(fmt.Sprintf("after %d transactions", i+1), at, want)
		if i > 40 {
			w.exec("FLUSH BINARY LOGS")
		}
	}
	w.exec("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
	w.expect("with later files", at, want)
	if anew, err := w.src.Latest(testContext(w.t), []replicator.Position{first}); err != nil ||
		anew.Order>>(fileBits+addressBits) != first.Order>>(fileBits+addressBits)+1 {
		w.t.Errorf("the end is at %d, %v: not in a new epoch above %d", anew.Order, err, first.Order)
	}
}

// goesOn expects that reading continues from the positions with what is written now.
func (w *world) goesOn(at map[string]replicator.Position, want kinship) {
	w.t.Helper()
	w.expect("afterwards", at, want)
	w.write(2)
	for name, p := range at {
		if got := w.changes(w.src, p); len(got) != 2 || got[1].Version != int64(1000+w.rows) {
			w.t.Errorf("from a position %s: %v", name, shown(got))
		}
	}
}

func TestWhichLogThisIs(t *testing.T) {
	worlds := []struct {
		kind servers.Kind
		gtid bool
	}{{servers.MySQL, true}, {servers.MySQL, false}, {servers.MariaDB1011, true}, {servers.MariaDB118, true}}
	for _, x := range worlds {
		t.Run(fmt.Sprintf("%s gtid=%t", x.kind, x.gtid), func(t *testing.T) {
			t.Parallel() // because each has its own server
			args := servers.GTIDs(x.kind, x.gtid)
			w := &world{bench: newBench(t, servertest.Own(t, x.kind, args...)), gtid: x.gtid}
			w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
			w.src = w.source(appTable())
			for _, c := range changes {
				t.Run(c.name, func(t *testing.T) {
					if c.mysql && x.kind.IsMariaDB() {
						t.Skip("MariaDB has no such thing")
					}
					outer := w.bench.t
					w.bench.t = t
					defer func() { w.bench.t = outer }()
					c.test(w)
				})
			}
		})
	}
}

// changes are the events that can happen to a server.
var changes = []struct {
	name  string
	mysql bool
	test  func(w *world)
}{
	{"given transactions that are in no binlog", true, func(w *world) {
		if !w.gtid {
			w.t.Skip("without GTIDs nothing tells")
		}
		gives := func(n int) {
			w.exec(fmt.Sprintf("SET GLOBAL gtid_purged = '+77777777-7777-7777-7777-777777777777:%d'", n))
		}
		at := w.positions()
		x := w.follows()
		gives(1)
		if err := x.reader.stillSame(testContext(w.t)); !errors.Is(err, replicator.ErrLost) {
			w.t.Errorf("while nothing is written to the log, the reader is told: %v", err)
		}
		x.end()
		w.expect("afterwards", at, unlogged)
		w.restart()
		w.expect("restarted", at, unlogged)
		named, err := w.src.At(testContext(w.t), w.file()+":4", nil) // the operator says that the views lack nothing
		if err != nil {
			w.t.Fatal(err)
		}
		after := w.positions()
		after["named"], after["read again"] = named, w.follows().reader.Position(0)
		w.restart()
		w.exec("FLUSH BINARY LOGS")
		w.expect("from then on", after, theSame)
		gives(2)
		w.expect("once more", map[string]replicator.Position{"kept up": after["kept up"]}, unlogged)
	}},
	{"restarted", false, func(w *world) {
		at := w.positions()
		w.restart()
		w.goesOn(at, theSame)
	}},
	{"rotated", false, func(w *world) {
		at := w.positions()
		w.exec("FLUSH BINARY LOGS")
		w.goesOn(at, theSame)
	}},
	// As after a snapshot of a running machine, where the file's birth is the same.
	{"another event at the place", false, func(w *world) {
		at := w.positions()
		delete(at, "bare")
		for name, p := range at {
			tok, _ := parseToken(p.Token)
			tok.Event.Sum++
			at[name], _ = tok.position()
		}
		w.expect("with another checksum", at, another)
		for name, p := range at {
			tok, _ := parseToken(p.Token)
			tok.Event = event{tok.Event.Size - 1, 1}
			at[name], _ = tok.position()
		}
		w.expect("where no event begins", at, another)
		for name, p := range at {
			tok, _ := parseToken(p.Token)
			tok.Event, tok.GTID = event{}, ""
			tok.Born++
			at[name], _ = tok.position()
		}
		w.expect("with another birth", at, another)
	}},
	{"set back behind what was read", false, func(w *world) {
		at := w.positions()
		p := at["kept up"]
		tok, _ := parseToken(p.Token)
		beyond := tok
		beyond.Pos += 4711
		tok.Read = &read{placed: beyond.placed}
		lost, _ := tok.position()
		w.expect("with something read beyond the end", map[string]replicator.Position{"kept up": lost}, another)
	}},
	{"snapshot rolled back", false, func(w *world) {
		w.kept = w.keep()
		before := w.positions()
		w.exec("FLUSH BINARY LOGS")
		after := w.positions()
		x := w.follows()
		w.restore(w.kept, "")
		after["under a reader"] = w.cutOff(x)
		w.stays(before, another)
		w.stays(after, another)
	}},
	{"snapshot of a running machine rolled back", false, func(w *world) { // the server continues with its file
		w.kept = w.keep()
		before := w.positions()
		file, born := w.file(), w.which(before["kept up"]).born
		x := w.follows()
		w.restore(w.kept, "")
		before["under a reader"] = w.cutOff(x)
		w.backdate(file, born)
		if _, err := w.src.Open(testContext(w.t), []replicator.Position{before["bare"]}); err == nil {
			w.t.Error("the end of what was lost is there before anything was written")
		}
		w.stays(before, another)
	}},
	{"backup restored without binlogs", false, func(w *world) {
		at := w.positions()
		w.restore(w.kept, "binlog.*")
		w.stays(at, another)
	}},
	{"reset", false, func(w *world) {
		at := w.positions()
		w.reset()
		w.stays(at, another)
		w.reset()
		first := w.positions()
		delete(first, "bare")
		w.reset()
		w.write(20)
		w.expect("after more transactions", first, another)
	}},
	{"reset under a reader", false, func(w *world) {
		w.reset()
		x := w.follows()
		w.reset() // nothing is written afterwards
		w.stays(map[string]replicator.Position{"kept up": w.cutOff(x)}, another)
		w.reset()
		x = w.follows()
		end := w.latest(w.src)
		w.reset()
		// The log is as long as before, so nothing follows the reader's position.
		w.write(3)
		if now := w.latest(w.src); now.Order&(1<<addressBits-1) != end.Order&(1<<addressBits-1) {
			w.t.Errorf("the log ends at %s, and not where it did: %s", Describe(now.Token), Describe(end.Token))
		}
		w.stays(map[string]replicator.Position{"kept up": w.cutOff(x)}, another)
	}},
	{"purged", false, func(w *world) {
		at := w.positions()
		w.write(1)
		w.exec("FLUSH BINARY LOGS")
		w.purge(w.file())
		w.expect("afterwards", at, purged)
		w.write(1)
		w.expect("later", at, purged)
	}},
	{"new uuid, same data", false, func(w *world) {
		at := w.positions()
		if w.isMaria() {
			w.exec("SET GLOBAL server_id = 77")
		} else {
			if err := w.server.Kill(); err != nil {
				w.t.Fatal(err)
			}
			w.remove("auto.cnf")
			w.restart()
		}
		if !w.gtid {
			w.expect("afterwards", at, stranger)
			return
		}
		w.goesOn(at, heir)
	}},
}

// follows returns a reader that has read three rows and continues to read.
func (w *world) follows() *reading {
	w.t.Helper()
	x := w.read(w.open(w.src, w.latest(w.src)))
	w.write(3)
	x.upTo(w.latest(w.src))
	return x
}

// cutOff expects that the reader ends with an error, and returns the reader's last position.
func (w *world) cutOff(x *reading) replicator.Position {
	w.t.Helper()
	n := len(x.all())
	_ = x.failure() // the connection or the log failed
	if more := x.all()[n:]; len(more) > 0 {
		w.t.Errorf("read from another log: %s", shown(more))
	}
	return x.reader.Position(x.last())
}

// backdate changes when a binlog file was begun: the time of its first event, after the file's first four bytes.
func (w *world) backdate(file string, born uint32) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.data(), file), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, born), 4)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// purge removes the files before one. A server keeps files that are being read, and is slow to notice that a reader has
// gone.
func (w *world) purge(to string) {
	w.t.Helper()
	for late := time.Now().Add(patience); ; {
		w.exec("PURGE BINARY LOGS TO '" + to + "'")
		files, err := logFiles(testContext(w.t), w.db)
		if err != nil || time.Now().After(late) {
			w.t.Fatalf("the files are %v, %v", files, err)
		}
		if files[0].name == to {
			return
		}
	}
}

// file returns the name of the binlog file that is being written.
func (w *world) file() string {
	w.t.Helper()
	tok, err := parseToken(w.latest(w.src).Token)
	if err != nil {
		w.t.Fatal(err)
	}
	return tok.File
}

// A position records that a reader ended within a transaction, after it had read a part of the transaction. On the same
// server, reading continues before the transaction.
func TestATransactionThatWasReadInPartIsReadAgain(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL)
		src := b.source(cellTable())
		from := b.latest(src)
		b.session("START TRANSACTION", "INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, 'a')",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 2, 'a')", "COMMIT")
		reader := b.open(src, from)
		cut := errors.New("cut")
		part := newRecorder()
		part.stop = cut
		if err := reader.Read(testContext(t), part); !errors.Is(err, cut) {
			t.Fatal(err)
		}
		p := reader.Position(reader.Start().Order)
		if got := b.changes(src, p); len(got) != 2 {
			t.Errorf("%d changes of a transaction of 2", len(got))
		}
	})
}
