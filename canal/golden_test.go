package canal

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// go test ./canal -run TestRecord -record records testdata again from real servers.
var record = flag.Bool("record", false, "record binlogs of real servers into testdata")

// recording is what a decoder needs in addition to the binlog. Outside of tests, it comes from the server.
type recording struct {
	Flavor     gtid.Flavor
	Database   string
	Collations map[uint64]string
	Tables     []replicator.Table
	Columns    map[string][][3]string // table → name, data type, character set
}

// binlogFile is an event handler that copies the server's binlog file.
type binlogFile struct{ bytes.Buffer }

func (f *binlogFile) handle(raw []byte) error {
	switch binlog.KindOf(raw) {
	case replication.ROTATE_EVENT:
		return nil
	case replication.HEARTBEAT_EVENT:
		return errEnough
	}
	f.Write(raw)
	return nil
}

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("only with -record")
	}
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		var args []string
		if kind.IsMariaDB() {
			args = []string{"--log-bin-compress=ON", "--log-bin-compress-min-len=1000"}
		}
		b := newBench(t, servertest.Own(t, kind, args...))
		b.exec(cellDDL)
		tables := typeTables(b, func(v string) bool { return !strings.Contains(v, "000)") })
		tables = append(tables, cellTable())
		b.exec("INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, 'a'), ('k', 'c', 2, REPEAT('b', 900)), ('k', 'c', 3, REPEAT('b', 900))",
			"UPDATE cell SET body = 'c'", "UPDATE cell SET ref_key = 0 WHERE ref_key = 2",
			"UPDATE cell SET row_key = 'l' WHERE ref_key = 3", "DELETE FROM cell",
			"CREATE TABLE other (a INT)", "INSERT INTO other VALUES (1)", "DROP TABLE other")
		if !kind.IsMariaDB() {
			b.session("SET SESSION binlog_transaction_compression = ON",
				"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('z', 'c', 1, REPEAT('z', 90)), ('z', 'c', 2, 'y')")
			b.session("SET SESSION gtid_next = 'AUTOMATIC:tag'",
				"INSERT INTO cell(row_key, column_name, ref_key) VALUES ('t', 'c', 1)")
		}
		src := b.source(tables...)
		conn, srv, err := src.connect(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sets, err := readCharsets(testContext(t), conn, srv.flavor)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := src.loadTables(testContext(t), conn, srv, nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := recording{Flavor: srv.flavor, Database: b.database, Collations: sets.Collations,
			Columns: map[string][][3]string{}}
		for _, w := range loaded.byID {
			rec.Tables = append(rec.Tables, w.Table)
			for _, c := range w.schema.Load().columns {
				rec.Columns[w.Name] = append(rec.Columns[w.Name], [3]string{c.Name, c.dataType, c.Charset})
			}
		}
		var f binlogFile
		f.Write(replication.BinLogFileHeader)
		_ = src.dump(testContext(t), srv, gomysql.Position{Name: "binlog.000001", Pos: 4}, src.cfg.Heartbeat, &f)
		text, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{".binlog": f.Bytes(), ".json": text} {
			if err := os.WriteFile(filepath.Join("testdata", string(kind)+name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join("testdata", string(kind)+".golden"),
			decodeRecording(t, string(kind)), 0o644); err != nil {
			t.Fatal(err)
		}
	})
}

// recordedStream returns a stream for a recording, and the recording's events.
func recordedStream(t testing.TB, name string, h replicator.Handler) (*stream, []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var rec recording
	if err := json.Unmarshal(text, &rec); err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile(filepath.Join("testdata", name+".binlog"))
	if err != nil {
		t.Fatal(err)
	}
	ts := tables{byPlace: map[string]map[string]*watched{rec.Database: {}}, byName: map[string][]*watched{}, byID: map[string]*watched{},
		fold: func(s string) string { return s }}
	for _, table := range rec.Tables {
		w := &watched{Table: table, id: table.Name}
		shape := &schema{primary: table.Key, unique: [][]string{table.Key}}
		if table.Name == "cell" {
			shape.unique = [][]string{{"added_at"}, {"row_key", "column_name", "ref_key"}}
		}
		for _, c := range rec.Columns[table.Name] {
			d := declaredColumn{Declared: binlog.Declared{Name: c[0], Charset: c[2]}, dataType: c[1], fullType: c[1]}
			d.complete()
			shape.columns = append(shape.columns, d)
		}
		w.schema.Store(shape)
		ts.byPlace[rec.Database][table.Table] = w
		ts.byName[table.Name], ts.byID[table.Name] = []*watched{w}, w
	}
	sets := binlog.NewCharsets(rec.Flavor, rec.Collations)
	sets.Ask = askRecorded
	return newTestStream(rec.Flavor, sets, ts, h), events[4:]
}

// recordedCodes are the codes in the recordings whose character sets are otherwise read from the server.
var recordedCodes = map[string]map[string]rune{
	"latin2":  {"\xA3": 'Ł', "\xF3": 'ó', "\xBC": 'ź'},
	"cp1251":  {"\xCF": 'П', "\xF0": 'р', "\xE8": 'и', "\xE2": 'в', "\xE5": 'е', "\xF2": 'т'},
	"koi8r":   {"\xF0": 'П', "\xD2": 'р', "\xC9": 'и', "\xD7": 'в', "\xC5": 'е', "\xD4": 'т'},
	"greek":   {"\xC5": 'Ε', "\xEB": 'λ', "\xDC": 'ά', "\xE4": 'δ', "\xE1": 'α'},
	"sjis":    {"\x93\xFA": '日', "\x96\x7B": '本', "\x8C\xEA": '語', "\xB1": 'ｱ'},
	"ujis":    {"\xC6\xFC": '日', "\xCB\xDC": '本', "\xB8\xEC": '語'},
	"gbk":     {"\xD6\xD0": '中', "\xCE\xC4": '文'},
	"big5":    {"\xA4\xA4": '中', "\xA4\xE5": '文'},
	"euckr":   {"\xC7\xD1": '한', "\xB1\xB9": '국', "\xBE\xEE": '어'},
	"gb18030": {"\xD6\xD0": '中', "\xCE\xC4": '文'},
}

func askRecorded(_ context.Context, charset string) (*binlog.Codes, error) {
	known, ok := recordedCodes[charset]
	if !ok {
		return nil, fmt.Errorf("the recordings have no %s", charset)
	}
	c := binlog.NewCodes(charset)
	for i := range rune(utf8.RuneSelf) {
		c.Put(string(i), i)
	}
	for code, r := range known {
		c.Put(code, r)
	}
	return c, nil
}

func newTestStream(f gtid.Flavor, sets binlog.Charsets, ts tables, h replicator.Handler) *stream {
	file := fileName{"binlog.000001", 1}
	return &stream{
		follows: func(context.Context, leaving) error { return nil },
		flavor:  f, charsets: sets, tables: ts, handler: h, stats: &readStats{}, file: file, pos: 4,
		history: newHistory(f, end{file: file, pos: 4, order: orderOf(0, 1, 4)}, gtid.New(f)),
		maps:    map[uint64]*plan{}, plans: map[uint64]*plan{}, origins: newOriginCache(),
		xa: prepared{log: slog.New(slog.DiscardHandler)},
	}
}

// feedAll passes all events to a stream.
func feedAll(s *stream, events []byte) error {
	return eachEvent(events, func(raw []byte) error { return s.event(context.Background(), raw) })
}

// feedReused passes all events to a stream in memory that is reused, as a dump does.
func feedReused(s *stream, events []byte) error {
	buffer := make([]byte, large)
	return eachEvent(events, func(raw []byte) error {
		if len(raw) < large {
			raw = buffer[:copy(buffer, raw)]
			defer clear(raw)
		}
		return s.event(context.Background(), raw)
	})
}

func eachEvent(events []byte, f func(raw []byte) error) error {
	for len(events) > 0 {
		h, err := binlog.ParseHeader(events)
		if err != nil || int(h.Size) > len(events) {
			return fmt.Errorf("recording: %d bytes left: %w", len(events), err)
		}
		if err := f(events[:h.Size]); err != nil {
			return err
		}
		events = events[h.Size:]
	}
	return nil
}

// decodeRecording returns a recording's changes as text.
func decodeRecording(t testing.TB, name string) []byte {
	t.Helper()
	h := newRecorder()
	s, events := recordedStream(t, name, h)
	defer s.close()
	if err := feedReused(s, events); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, c := range h.all() {
		_, _, at := splitOrder(c.Order)
		fmt.Fprintf(&out, "%d %s %s v%d", at, c.Kind, c.Cell, c.Version)
		if c.Row != nil {
			body := c.Row.Body
			if c.Row.Text != nil {
				body, _ = c.Row.Text(body)
			}
			fmt.Fprintf(&out, " %q", body)
			for i, v := range c.Row.Columns {
				fmt.Fprintf(&out, "\n\t%s %T %s", c.Row.Names[i], v, short(v))
			}
		}
		out.WriteByte('\n')
	}
	_, gtids := s.history.upTo(1<<63 - 1)
	fmt.Fprintf(&out, "end %d, %d commits, last at %s\n", s.pos, len(h.commits),
		time.Unix(0, 0).UTC().Format(time.DateOnly))
	fmt.Fprintf(&out, "%s\n", gtids)
	return out.Bytes()
}

func TestRecordedBinlogsDecode(t *testing.T) {
	for _, kind := range servers.SourceKinds() {
		t.Run(string(kind), func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", string(kind)+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			if got := decodeRecording(t, string(kind)); !bytes.Equal(got, want) {
				t.Errorf("the recording decodes to something else than %s.golden:\n%s", kind, firstDifference(got, want))
			}
		})
	}
}

func firstDifference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// A damaged binlog must end in an error or in other values, never in a panic or a hang.
func FuzzEvents(f *testing.F) {
	for _, kind := range servers.SourceKinds() {
		_, events := recordedStream(f, string(kind), newRecorder())
		for n := 0; len(events) > 0 && n < 400; n++ {
			h, _ := binlog.ParseHeader(events)
			if h.Kind != replication.FORMAT_DESCRIPTION_EVENT && n%7 == 0 {
				f.Add(string(kind), events[:h.Size])
			}
			events = events[h.Size:]
		}
	}
	streams := map[string][]byte{}
	for _, kind := range servers.SourceKinds() {
		_, streams[string(kind)] = recordedStream(f, string(kind), newRecorder())
	}
	f.Fuzz(func(t *testing.T, name string, damaged []byte) {
		events, ok := streams[name]
		if !ok || len(damaged) < binlog.HeaderSize {
			return
		}
		s, _ := recordedStream(t, name, newRecorder())
		defer s.close()
		// The stream gets all table maps first, so that damaged rows find their table map. Then it gets the damaged
		// event. Nothing checks that event's checksum.
		for rest := events; len(rest) > 0; {
			h, _ := binlog.ParseHeader(rest)
			if h.Kind == replication.TABLE_MAP_EVENT {
				_ = s.tableMap(context.Background(), rest[binlog.HeaderSize:h.Size-binlog.ChecksumSize])
			}
			rest = rest[h.Size:]
		}
		body := damaged[binlog.HeaderSize:]
		h, err := binlog.ParseHeader(damaged)
		if err != nil {
			return
		}
		_ = s.dispatch(context.Background(), h, body, scale{packed: 1, unpacked: 1})
	})
}

func FuzzTableMap(f *testing.F) {
	for _, kind := range servers.SourceKinds() {
		_, events := recordedStream(f, string(kind), newRecorder())
		for len(events) > 0 {
			h, _ := binlog.ParseHeader(events)
			if h.Kind == replication.TABLE_MAP_EVENT {
				f.Add(events[binlog.HeaderSize:h.Size-binlog.ChecksumSize], kind.IsMariaDB())
			}
			events = events[h.Size:]
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, maria bool) {
		fl := gtid.MySQL
		if maria {
			fl = gtid.MariaDB
		}
		m, err := binlog.ParseTableMap(body, fl)
		if err != nil {
			return
		}
		for i := range m.Types {
			if c, err := binlog.NewColumn(&m, i, nil, binlog.Charsets{}); err == nil {
				if n := c.Size(body); n >= 0 {
					from := 0
					if c.Width == 0 {
						from = c.Prefix
					}
					_, _ = c.Value(body[from:n])
				}
			}
		}
	})
}
