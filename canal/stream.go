package canal

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/remedy"
)

// stream converts a binlog's events to changes and ends of transactions. It uses no connection: a Reader passes it the
// events of a server, tests pass recordings. Only one goroutine uses it.
type stream struct {
	flavor   gtid.Flavor
	charsets binlog.Charsets
	tables   tables
	history  *history
	handler  replicator.Handler
	layouts  *layouts                                      // nil: all rows are decoded by their table's current columns
	reread   func(ctx context.Context, table string) error // reads a table's current schema from the server
	regroup  func(ctx context.Context, id string) error    // loads new tables that match a pattern
	keep     func(context.Context, ...*layout) error       // stores layouts, so that positions can name them
	origins  originCache
	begun    func(context.Context) error // called at the beginning of a MySQL binlog file
	onStart  func(before *gtid.Set)      // gets `untilGTID`, once reading has reached `until`

	epoch    int
	file     fileName
	born     uint32 // when the file was begun; 0: not read yet
	wantBorn uint32 // what `born` must be in the file of the start position; 0: unknown
	pos      int64  // where the last event ended
	ended    event  // the last event, which ended at `pos`
	prior    event  // the event before the last one
	sum      uint32 // the CRC-32 of the last event, without its own checksum
	checksum bool   // the file's events end with a checksum

	// If `until` is not 0, the file is read from its beginning, and nothing before `until` is delivered. That is needed
	// because the server can't begin sending beyond 4 GiB in a file, and MySQL can't tell the GTIDs before a position
	// inside a file.
	until       int64
	untilGTID   *gtid.Set // if the GTIDs before `until` are unknown: those that reading the file has found; else nil
	mustPrecede *gtid.Set // transactions that must precede `until`, else this is a different log; nil: not checked
	skip        *gtid.Set // transactions that views include already, because another server sent them; nil: none
	guards      []*mariaGuard

	// These transactions are delivered as deletes with AnyVersion, which makes the pipeline re-read the cells. Sinks
	// may already have their changes, because an earlier reader delivered them, perhaps from another server. But here
	// the changes may have higher Orders, so they would count as newer, or the server may have rolled them back.
	again   *gtid.Set          // transactions by GTID; nil: none
	againTo int64              // all that begin before this log position, given as a number with epoch 0; 0: none
	torn    map[beginning]bool // those that a crash of the server cut off in their file

	shut bool // an event ended the file; if the next file begins without such an event, the server died

	left    *leaving                                   // how far the previous file was read; nil after `follows` is called
	follows func(ctx context.Context, l leaving) error // checks that a new file continues the previous one

	// visible waits until queries see a committed XA transaction, and reports whether they do. nil: don't wait.
	visible func(ctx context.Context, xid string) (bool, error)
	// byFormat adds the server's binlog_format to an error, if that setting is its cause. nil: it adds nothing.
	byFormat func(ctx context.Context, by statement, err error) error

	// byPrimary finds the cells of rows by primary key; nil: there is no server to ask.
	byPrimary func(ctx context.Context, t *watched, names []string, keys [][]any) ([]replicator.Cell, error)

	maps  map[uint64]*plan // by table id, for the current statement; nil for an unwatched table
	plans map[uint64]*plan // by table id, kept for later statements
	tx    transaction
	rowed []*watched // tables whose rows the current transaction delivered; valid only if tx.rows is set
	xa    prepared

	raw           int // the size of the current event; 0: its data was decompressed into a buffer that is reused
	change        replicator.Change
	before, after image
	inflate       *zstd.Decoder
	scratch       []byte
	unzipped      []byte

	stats *readStats
	tally tally
}

// handlerError marks an error of the Handler, which Read returns unchanged.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

func (s *stream) event(ctx context.Context, raw []byte) error {
	h, err := binlog.ParseHeader(raw)
	if err != nil {
		return s.broken(err)
	}
	if int(h.Size) != len(raw) {
		return s.broken(fmt.Errorf("an event has %d bytes, but its header says %d", len(raw), h.Size))
	}
	s.tally.event(len(raw))
	body, err := s.body(h, raw)
	if err != nil {
		return err
	}
	start := s.pos
	if err := s.advance(h); err != nil {
		return err
	}
	s.note(h, start)
	place := scale{base: s.pos - int64(h.Size) + binlog.HeaderSize}
	s.raw = len(raw)
	if err = s.dispatch(ctx, h, body, place); err == nil && !s.tx.open {
		err = s.reached()
	}
	if err != nil || !s.tx.open || s.tally.full() {
		s.stats.tell(&s.tally)
	}
	if len(raw) >= large { // don't keep a large event's memory alive until the next row
		s.change = replicator.Change{}
		clear(s.before.values)
		clear(s.after.values)
	}
	if err != nil {
		return s.locate(err, start)
	}
	return nil
}

// large is the size from which an event gets its own memory.
const large = 64 << 10

// kept returns the body in memory that the row can keep. That is a copy, unless the body is most of a large event,
// whose memory is never reused.
func (s *stream) kept(body []byte) []byte {
	if len(body) >= large && 2*len(body) >= s.raw && s.raw > 0 {
		return body
	}
	return owned(body)
}

func (s *stream) note(h binlog.Header, start int64) {
	if s.pos == start {
		return
	}
	s.prior = event{}
	if s.pos == start+int64(h.Size) { // the server left out no event between the last event and this one
		s.prior = s.ended
	}
	s.ended = event{h.Size, s.sum}
	// Two kinds of events can't identify a position by their size and checksum. One is a file's first event, which the
	// server changes when it ends the file. The other is an event that doesn't say where it ends (inside transactions
	// since MariaDB 11.4): s.pos may then be too low.
	if h.Kind == replication.FORMAT_DESCRIPTION_EVENT || h.LogPos == 0 {
		s.ended = event{}
	}
}

// body checks and removes an event's checksum.
func (s *stream) body(h binlog.Header, raw []byte) ([]byte, error) {
	if h.Kind == replication.FORMAT_DESCRIPTION_EVENT {
		// This event always ends with a byte for the checksum's algorithm and a checksum.
		if len(raw) < binlog.HeaderSize+2+50+4+1+5 {
			return nil, s.broken(binlog.ErrShort)
		}
		s.checksum = hasChecksum(raw)
		return raw[binlog.HeaderSize : len(raw)-5], nil
	}
	if !s.checksum {
		s.sum = crc32.ChecksumIEEE(raw)
		return raw[binlog.HeaderSize:], nil
	}
	n := len(raw) - binlog.ChecksumSize
	if n < binlog.HeaderSize {
		return nil, s.broken(binlog.ErrShort)
	}
	s.sum = crc32.ChecksumIEEE(raw[:n])
	if s.sum != uint32(binlog.LittleEndian(raw[n:])) {
		return nil, s.broken(errors.New("an event's checksum is wrong"))
	}
	return raw[binlog.HeaderSize:n], nil
}

// hasChecksum reports whether the events of a file have checksums, judged by its first event.
func hasChecksum(raw []byte) bool {
	return len(raw) >= 5 && raw[len(raw)-5] == byte(replication.BINLOG_CHECKSUM_ALG_CRC32)
}

// advance moves the position to the end of an event. It adds up the sizes of events, because positions in event headers
// have only 32 bits, and since MariaDB 11.4 are 0 inside transactions. The server doesn't send some events. The next
// position in a header shows how large they are.
func (s *stream) advance(h binlog.Header) error {
	if h.Flags&binlog.ArtificialFlag != 0 || binlog.IsHeartbeat(h.Kind) {
		return nil
	}
	if h.Kind == replication.FORMAT_DESCRIPTION_EVENT && s.pos > 4 { // the server repeats the file's first event
		return nil
	}
	end := s.pos + int64(h.Size)
	// MariaDB repeats this event from the file's beginning if reading starts inside a file.
	if h.Kind == replication.MARIADB_START_ENCRYPTION_EVENT && h.LogPos != uint32(end) {
		return nil
	}
	if h.LogPos != 0 {
		gap := h.LogPos - uint32(end)
		if gap >= 1<<31 {
			return s.broken(fmt.Errorf("an event ends at %d, but the previous event ended at %d", h.LogPos, s.pos))
		}
		end += int64(gap)
	}
	if end > maxAddress {
		return replicator.Fatal(fmt.Errorf("binlog %s is larger than %d bytes, the largest supported size. Let the "+
			"source write smaller transactions, and rebuild the views", s.file.name, int64(maxAddress)))
	}
	s.pos = end
	return nil
}

func (s *stream) dispatch(ctx context.Context, h binlog.Header, body []byte, place scale) error {
	switch h.Kind {
	case replication.FORMAT_DESCRIPTION_EVENT:
		return s.formatDescription(ctx, h)
	case replication.ROTATE_EVENT:
		return s.rotate(h, body)
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2, replication.MARIADB_BINLOG_CHECKPOINT_EVENT:
		return s.idle()
	case replication.PREVIOUS_GTIDS_EVENT:
		return s.previousGTIDs(ctx, body)
	case replication.MARIADB_GTID_LIST_EVENT:
		return s.gtidList(h, body)
	case replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT:
		return s.mysqlGTID(ctx, h, body)
	case replication.GTID_TAGGED_LOG_EVENT:
		return s.taggedGTID(ctx, h, body)
	case replication.MARIADB_GTID_EVENT:
		return s.mariaGTID(ctx, h, body)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		return s.payload(ctx, h, body, place)
	case replication.INCIDENT_EVENT:
		return replicator.Fatal(errors.New("the source logged an incident, so changes may be missing from its " +
			"binlog. Rebuild the views"))
	}
	ended, err := s.inner(ctx, h, body, place)
	if err != nil || !ended {
		return err
	}
	return s.committed(ctx)
}

// inner handles events that may also be inside a compressed transaction. ended says that the transaction has ended.
func (s *stream) inner(ctx context.Context, h binlog.Header, body []byte, place scale) (ended bool, err error) {
	switch h.Kind {
	case replication.TABLE_MAP_EVENT:
		return false, s.tableMap(ctx, body)
	case replication.QUERY_EVENT:
		return s.query(ctx, h, body, 0)
	case replication.MARIADB_QUERY_COMPRESSED_EVENT:
		return s.compressedQuery(ctx, h, body)
	case replication.EXECUTE_LOAD_QUERY_EVENT:
		return s.query(ctx, h, body, binlog.ExecuteLoadExtra)
	case replication.XID_EVENT:
		return true, nil
	case replication.STOP_EVENT:
		s.shut = true
		return false, nil
	case replication.XA_PREPARE_LOG_EVENT:
		if err := s.seekAll(ctx); err != nil {
			return false, err
		}
		return true, s.prepare(body)
	case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT, replication.ROWS_QUERY_EVENT,
		replication.BEGIN_LOAD_QUERY_EVENT, replication.APPEND_BLOCK_EVENT, replication.DELETE_FILE_EVENT,
		replication.MARIADB_ANNOTATE_ROWS_EVENT, replication.MARIADB_START_ENCRYPTION_EVENT,
		replication.IGNORABLE_EVENT, replication.TRANSACTION_CONTEXT_EVENT, replication.VIEW_CHANGE_EVENT:
		return false, nil
	}
	if shape := rowsShapes[h.Kind]; shape != nil {
		return false, s.rows(ctx, shape, body, place)
	}
	if h.Flags&binlog.IgnorableFlag != 0 {
		return false, nil
	}
	return false, replicator.Fatal(fmt.Errorf("the binlog has an event of type %d, which this version doesn't know, "+
		"because the server is newer. Update the program. Or `replicator rebuild "+remedy.Views+"` fills the views "+
		"again and continues after the event", h.Kind))
}

// formatDescription handles the first event of a file. The event's time is when the file was begun, which distinguishes
// the file from others of the same name.
func (s *stream) formatDescription(ctx context.Context, h binlog.Header) error {
	s.born = h.Time
	if s.wantBorn != 0 && s.wantBorn != h.Time {
		return replicator.Fatal(fmt.Errorf("binlog %s is not the file that was read before: the source's binlogs were "+
			"reset (RESET, or a restored server). Rebuild the views", s.file.name))
	}
	s.wantBorn = 0
	if l := s.left; l != nil {
		s.left = nil
		return s.follows(ctx, *l)
	}
	return nil
}

// rotate handles a rotate event. A real one ends a file. An artificial one names the file and position that come next.
func (s *stream) rotate(h binlog.Header, body []byte) error {
	c := binlog.Cursor{B: body}
	pos := int64(c.Uint(8))
	name := string(c.Rest())
	if c.Bad {
		return s.broken(binlog.ErrShort)
	}
	file, err := parseFileName(name)
	if err != nil {
		return err
	}
	if h.Flags&binlog.ArtificialFlag != 0 || h.LogPos == 0 {
		if file == s.file && s.pos >= pos { // the first rotate event of a dump: the stream knows its position more exactly
			return nil
		}
	} else {
		pos, s.shut = 4, true
	}
	if file != s.file {
		if err := s.abandon(); err != nil { // a transaction is open here only after a crash, which rolled it back
			return err
		}
		if s.until > 0 {
			return s.missedStart()
		}
		s.left = &leaving{s.here(gtidRun{}).placed(), s.shut}
		s.born, s.shut = 0, false
	}
	s.file, s.pos, s.ended = file, pos, event{}
	clear(s.maps)
	return nil
}

func (s *stream) missedStart() error {
	if s.mustPrecede != nil {
		return s.otherStart("no transaction ends there")
	}
	return replicator.Fatal(fmt.Errorf("%s:%d is not between two transactions. Stop the program, run `replicator "+
		"checkpoint reset "+remedy.Views+"`, and start it again. It then fills the views", s.file.name, s.until))
}

// otherStart returns the error for a start position that was read from a different log than the one being read.
func (s *stream) otherStart(why string) error {
	return errAnother(token{placed: placed{File: s.file.name, Pos: s.until}}, why)
}

// idle handles a sign that the source is idle: the log's end is reached, so the position is current.
func (s *stream) idle() error {
	if s.tx.open || s.until > 0 {
		return nil
	}
	return s.mark(s.here(gtidRun{}), time.Time{})
}

// mark advances the position to e, the end of a transaction, and tells the handler.
func (s *stream) mark(e end, at time.Time) error {
	if err := errors.Join(s.settled(e.order), s.settleMembers(e.order)); err != nil {
		return err
	}
	s.history.add(e)
	s.handler.Commit(e.order, at)
	return nil
}

func (s *stream) here(run gtidRun) end {
	return end{file: s.file, pos: s.pos, born: s.born, event: s.ended,
		order: orderOf(s.epoch, s.file.number, s.pos), last: run, anonymous: s.tx.anonymous}
}

// committed handles the end of a committed transaction. It delivers the changes that were held until the end.
func (s *stream) committed(ctx context.Context) error {
	if err := s.seekAll(ctx); err != nil {
		return err
	}
	if err := s.release(ctx); err != nil {
		return err
	}
	return s.endTransaction()
}

func (s *stream) endTransaction() error {
	tx := s.tx
	s.tx = transaction{}
	clear(s.maps)
	if s.until > 0 {
		if s.untilGTID != nil && tx.run.last != 0 {
			s.collect(tx)
		}
		return s.reached()
	}
	run := tx.run
	if tx.skip {
		run = gtidRun{}
	}
	e := s.here(run)
	e.anonymous = tx.anonymous
	return s.mark(e, tx.at)
}

func (s *stream) collect(tx transaction) {
	if s.flavor == gtid.MariaDB {
		s.untilGTID.AddMaria(tx.sid.name, tx.sid.server, tx.run.last)
		return
	}
	s.untilGTID.Add(tx.sid.name, gtid.Run{First: tx.run.first, Last: tx.run.last})
}

// reached checks whether reading has reached the start position, and begins the delivery there. It is called between
// two transactions. It is also called after events that precede a file's first transaction (MariaDB: Gtid_list,
// Binlog_checkpoint), because the start position may follow any of them.
func (s *stream) reached() error {
	switch {
	case s.until == 0 || s.pos < s.until:
	case s.pos == s.until:
		return s.started()
	default:
		return s.missedStart()
	}
	return nil
}

func (s *stream) started() error {
	if s.mustPrecede != nil && !s.untilGTID.Includes(s.mustPrecede) {
		return s.otherStart(otherBefore(s.untilGTID.String(), s.mustPrecede.String()))
	}
	if s.untilGTID != nil && s.onStart != nil {
		s.onStart(s.untilGTID.Clone())
	}
	s.history.know(s.here(gtidRun{}), s.untilGTID)
	s.until, s.untilGTID = 0, nil
	if err := s.settleMembers(orderOf(s.epoch, s.file.number, s.pos)); err != nil {
		return err
	}
	s.handler.Commit(orderOf(s.epoch, s.file.number, s.pos), time.Time{})
	return nil
}

// silent reports whether the rows of the current transaction must not be delivered.
func (s *stream) silent() bool { return s.tx.skip || s.until > 0 }

// broken returns an error about the data that the server sent. The error is temporary: reading again may help.
func (s *stream) broken(err error) error {
	return fmt.Errorf("binlog %s:%d: %w", s.file.name, s.pos, err)
}

// locate adds a log position to an error: the transaction's beginning, which the operator can inspect and set a
// checkpoint to. It returns an error of the handler unchanged.
func (s *stream) locate(err error, start int64) error {
	var h handlerError
	if errors.As(err, &h) {
		return h.error
	}
	if s.tx.open && s.tx.from > 0 {
		start = s.tx.from
	}
	return fmt.Errorf("binlog %s:%d: %w", s.file.name, start, err)
}

func (s *stream) close() {
	if s.inflate != nil {
		s.inflate.Close()
	}
}

// ready tells the handler the start position. It must be called before the first event.
func (s *stream) ready() {
	if s.until == 0 {
		s.handler.Commit(orderOf(s.epoch, s.file.number, s.pos), time.Time{})
	}
}
