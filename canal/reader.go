package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
)

// Reader reads a source's binlog for one pipeline.
type Reader struct {
	source   *Source
	server   server
	place    place
	start    replicator.Position
	tables   tables
	charsets binlog.Charsets
	history  *history
	stream   *stream
	layouts  *layouts
	loose    string // the start position's GTIDs, if some may be missing (token.Loose); used until reading finds all
	skipEnd  int64  // the binlog's end when the reader was opened: transactions to skip (token.Skip) are before it

	before  atomic.Pointer[gtid.Set] // the transactions before start; nil until they are known
	rowSize atomic.Int64             // the average size of a row in the last query of Newest; 0: unknown

	mu sync.Mutex // Position may be called by several goroutines
}

// prepare reads the character sets and the tables' columns, which decoding needs, and sets up the stream.
func (r *Reader) prepare(ctx context.Context, db *sql.Conn, t token, tables []string) (err error) {
	if r.charsets, err = readCharsets(ctx, db, r.server.flavor); err != nil {
		return classify(err)
	}
	r.charsets.Ask = func(ctx context.Context, charset string) (*binlog.Codes, error) {
		set, err := r.source.codes.Of(ctx, r.server.version, charset, r.connect)
		return set, classify(err)
	}
	r.tables, err = r.source.loadTables(ctx, db, r.server, tables)
	if err != nil && !replicator.IsFatal(err) {
		return err
	}
	refused := []error{err}
	file, pos, _, err := r.server.status(ctx, db)
	if err != nil {
		return err
	}
	r.skipEnd = orderOf(r.place.epoch, file.number, pos)
	for _, id := range slices.Sorted(maps.Keys(r.tables.byID)) {
		err := r.prepareTable(ctx, t, r.tables.byID[id])
		if err != nil && !replicator.IsOfViews(err) {
			return err
		}
		refused = append(refused, err)
	}
	// Report all errors at once. If each error ended reading separately, each would delay the views of the other
	// tables.
	if err := errors.Join(refused...); err != nil {
		return err
	}
	for _, p := range r.tables.patterns {
		if err := r.openMembers(ctx, t, p); err != nil {
			return err
		}
	}
	var unknown []*watched
	for _, w := range r.tables.byID {
		if r.layouts.unknown(w.id) {
			unknown = append(unknown, w)
		}
	}
	if err := r.scoutLayouts(ctx, unknown); err != nil {
		return err
	}
	return r.newStream(ctx, db, t)
}

func (r *Reader) prepareTable(ctx context.Context, t token, w *watched) error {
	if err := r.openLayouts(ctx, t, w); err != nil {
		return err
	}
	if err := w.check(r.server.flavor); err != nil {
		return w.fatal(err)
	}
	w.names = newColumnNames(&w.Table, w.schema.Load(), r.connect)
	return w.names.check(ctx)
}

// openLayouts finds out a table's column order at the start position and now, because the binlog may not name columns.
// If the position is from another server, where the order may differ, only the current order is used.
func (r *Reader) openLayouts(ctx context.Context, t token, w *watched) error {
	now := w.schema.Load().layout()
	if err := r.source.layouts.keep(ctx, now); err != nil {
		return err
	}
	start := r.place.order()
	certain := []layoutFrom{{w.end.order(r.place.epoch), now}}
	if at, known := t.layoutOf(w.id); known && !r.place.moved {
		was, err := r.source.layouts.find(ctx, at.digest)
		if err != nil {
			return err
		}
		if order := max(at.order, start); was != nil && order <= certain[0].order {
			certain = slices.Insert(certain, 0, layoutFrom{order, was})
		}
	}
	r.layouts.open(w.id, start, certain)
	return nil
}

// newStream decides where the server starts sending its binlog, and which changes the reader drops at the start.
func (r *Reader) newStream(ctx context.Context, db querier, t token) (err error) {
	p := r.place
	s := &stream{
		flavor: r.server.flavor, charsets: r.charsets, tables: r.tables, stats: &r.source.stats,
		epoch: p.epoch, file: p.file, pos: p.pos, ended: p.event, born: p.born, wantBorn: p.born,
		mustPrecede: p.mustPrecede, maps: map[uint64]*plan{}, plans: map[uint64]*plan{}, origins: newOriginCache(),
		layouts: r.layouts, reread: r.reread, regroup: r.regroup, keep: r.source.layouts.keep,
		xa: prepared{log: r.source.cfg.Logger.With(slog.String("source", r.source.cfg.Name))}, visible: r.xaVisible,
		follows: r.follows, byFormat: r.byFormat,
		byPrimary: r.cellsByPrimary,
	}
	known := p.gtids
	switch {
	case !r.server.gtid() || known != nil:
	case p.pos == 4:
		before, err := r.server.gtidsBefore(ctx, db, p.file.name)
		if err != nil {
			return err
		}
		known = before
	default:
		s.until = p.pos
		if s.untilGTID, err = r.server.unlogged(ctx, db, gtid.New(r.server.flavor)); err != nil {
			return err
		}
		if !p.moved {
			r.loose = t.GTID
		}
	}
	// Positions in the protocol have 32 bits, so reading starts at the file's beginning if the position is larger.
	// Reading also starts there if the event that ends at the position is unknown, because later checks of the position
	// need this event.
	if p.pos >= 1<<32 || p.pos > 4 && p.event.unknown() {
		s.until = p.pos
	}
	if p.skip {
		s.skip = p.gtids
		if r.server.flavor == gtid.MariaDB {
			before, err := r.beforeStart(ctx, db)
			if err != nil {
				return err
			}
			s.guards = append(s.guards, newMariaGuard(p.gtids, before, nil))
			if p.beyond != nil {
				s.guards = append(s.guards, newMariaGuard(p.beyond, before, replicator.ErrLost))
			}
		}
	}
	if p.moved {
		r.place.older = joined(p.older, p.beyond, p.unsure)
		s.againTo = p.readAt
	}
	s.again, s.torn = r.place.older, r.source.torn.all()
	if s.until > 0 {
		s.pos, s.ended = 4, event{}
	}
	order := p.order()
	if known != nil {
		r.before.Store(known.Clone())
		known = known.Clone()
	}
	s.onStart, s.begun = r.before.Store, r.sameMode
	r.history = newHistory(r.server.flavor, end{file: p.file, pos: p.pos, born: p.born,
		event: p.event, order: order}, known)
	r.history.anonymous = p.anonymous || !r.server.numbers()
	s.history = r.history
	r.stream = s
	if !p.moved {
		t.Epoch, t.Born = p.epoch, p.born
		t.Layouts = r.layouts.digests(order)
		if t.Run != r.source.run {
			t.Run, t.Read = r.source.run, t.Read.withUnsure(p.unsure, p.gtids)
		}
		if r.start, err = t.position(); err == nil {
			return nil
		}
	}
	r.start = r.Position(order)
	return nil
}

// sameMode fails if the server's GTID mode has changed since the reader was opened. It is called at each new binlog
// file, because MySQL begins one when the mode changes.
func (r *Reader) sameMode(ctx context.Context) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	mode, err := variable(ctx, conn, "gtid_mode")
	if err == nil && !strings.EqualFold(mode, r.server.gtidMode) {
		err = fmt.Errorf("the source's gtid_mode changed from %s to %s: reading starts again", r.server.gtidMode, mode)
	}
	return err
}

// beforeStart returns the transactions before the start position, as MariaDB reports them. If MariaDB can't, it returns
// the transactions before the position's file, which may be fewer.
func (r *Reader) beforeStart(ctx context.Context, db querier) (*gtid.Set, error) {
	if r.place.pos > 4 {
		if before, known, err := r.server.remembered(ctx, db, r.place.file.name, r.place.pos); err != nil || known {
			return before, err
		}
	}
	return r.server.gtidsBefore(ctx, db, r.place.file.name)
}

// Start returns the position at which reading begins.
func (r *Reader) Start() replicator.Position { return r.start }

// Position returns the latest end of a transaction that is not after the given log position.
func (r *Reader) Position(order int64) replicator.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, gtids := r.history.upTo(r.stream.xa.safeStart(order))
	t := token{Server: r.server.identity, placed: e.placed(), Epoch: r.place.epoch, Run: r.source.run}
	t.Layouts = r.layouts.digests(e.order)
	r.layouts.forget(e.order)
	if gtids != nil {
		t.GTID = gtids.String()
	} else { // not known yet: keep the start position's GTIDs, by which reading can go on at another server
		t.GTID, t.Loose = r.loose, r.loose != ""
	}
	t.Skip = r.place.skip && e.order < r.skipEnd
	t.Read, t.Anonymous = r.readBeyond(e, gtids)
	t.Forked = r.place.forked || r.history.forked.Load()
	p, err := t.position()
	if err != nil { // can't happen: all parts of `t` were checked before
		return r.start
	}
	return p
}

// readBeyond returns how far this reader or an earlier one has read beyond a position; nil if neither has read beyond
// it. `anonymous` says that the last transaction that was read has no GTID.
func (r *Reader) readBeyond(e end, before *gtid.Set) (_ *read, anonymous bool) {
	at, further, anonymous := r.history.reached()
	if notAllIn(r.place.beyond, before) {
		further.Join(r.place.beyond)
	}
	if queried := r.history.shownByQueries(before); queried != nil {
		further.Join(queried)
	}
	beyond := read{placed: at.placed(), GTID: further.String()}
	if notAllIn(r.place.older, before) {
		beyond.Older = r.place.older.String()
	}
	if notAllIn(r.place.unsure, before) {
		beyond.Unsure = r.place.unsure.String()
	}
	if before := r.place.readAt + orderOf(r.place.epoch, 0, 0); r.place.readAt > 0 && before > at.order {
		beyond.placed, at.order = r.place.read, before
	}
	switch {
	case at.order > e.order:
		return &beyond, anonymous
	case further.Empty() && beyond.Older == "" && beyond.Unsure == "":
		return nil, anonymous
	}
	beyond.placed = placed{} // no log position beyond `e` was read, so only the GTIDs say what was read
	return &beyond, anonymous
}

// notAllIn reports whether `set` has transactions that `before` lacks, or may lack because `before` is nil (unknown).
func notAllIn(set, before *gtid.Set) bool {
	return set != nil && (before == nil || !before.Includes(set))
}

// File returns the highest number of a binlog file that a result of Position, delivered rows or a query came from.
func (r *Reader) File() int64 { return r.history.file() }

// Locate formats a log position, given as a number, as FILE:POS.
func (r *Reader) Locate(order int64) string {
	_, number, address := splitOrder(order)
	return fmt.Sprintf("%s:%d", r.place.file.withNumber(number), address)
}

// Latest returns the current end of the binlog.
func (r *Reader) Latest(ctx context.Context) (replicator.Position, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return replicator.Position{}, err
	}
	defer conn.Close()
	t, err := r.server.latest(ctx, conn)
	if err != nil {
		return replicator.Position{}, err
	}
	t.Server, t.Epoch = r.server.identity, r.place.epoch
	return t.position()
}

// ErrFence means that a text does not name a position in this source's binlog.
var ErrFence = errors.New("a log position must be FILE:POS or a GTID set of the source")

// Includes reports whether p includes everything that the fence (a GTID set, or FILE:POS) names.
func (r *Reader) Includes(_ context.Context, p replicator.Position, fence string) (bool, error) {
	t, err := parseToken(p.Token)
	if err != nil {
		return false, err
	}
	if isFilePos(fence) {
		includes, err := t.includesFilePos(fence)
		return includes && (t.Server == "" || t.Server == r.server.identity), err
	}
	want, err := gtid.Parse(r.server.flavor, fence)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrFence, err)
	}
	if !r.server.gtid() {
		return false, fmt.Errorf("%w: the source's transactions have no GTIDs (gtid_mode=OFF when reading began). "+
			"Use FILE:POS", ErrFence)
	}
	if before := r.before.Load(); p.Order == r.start.Order && before != nil {
		return before.Includes(want), nil
	}
	have, err := gtid.Parse(r.server.flavor, t.GTID)
	return err == nil && have.Includes(want), err
}

// Close frees the reader's memory and decoders.
func (r *Reader) Close() error {
	r.stream.close()
	return nil
}

// reread reads a table's columns from the server again, after a statement that may have changed them, or if rows don't
// fit the known columns. It fails if the table or a needed column is gone. The table's views continue once it is back.
func (r *Reader) reread(ctx context.Context, table string) (err error) {
	w := r.tables.byID[table]
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if w.Pattern {
		defer func() {
			if replicator.IsFatal(err) || errors.Is(err, replicator.ErrRedefined) { // the pattern is read without the table
				err = membersChanged(w.Name, err)
			}
		}()
	}
	shape, end, err := readSchemaAt(ctx, conn, r.server, &w.Table)
	if errors.Is(err, errNoTable) && !w.Pattern { // not Fatal: during a rename, the table may be missing for a moment
		return replicator.OfTable(w.Name, fmt.Errorf("table %s was dropped or renamed", table))
	}
	if err != nil {
		return w.classify(err)
	}
	if err := replicator.RedefinedTable(table, w.schema.Load().identity(&w.Table), shape.identity(&w.Table)); err != nil {
		return err
	}
	if err := shape.countable(&w.Table); err != nil {
		return w.fatal(err)
	}
	w.schema.Store(shape)
	if err := w.check(r.server.flavor); err != nil {
		return w.fatal(err)
	}
	// Not Fatal, because the joined table may have been altered, too. Opening the tables again shows whether the join
	// works now.
	if err := errors.Join(r.tables.unjoinable()...); err != nil {
		return err
	}
	now := shape.layout()
	r.layouts.addCurrent(table, now, end.order(r.place.epoch))
	r.source.cfg.Logger.Info("a watched table was altered, and its columns were read again",
		slog.String("source", r.source.cfg.Name), slog.String("table", table))
	return r.source.layouts.keep(ctx, now)
}

// huge is the size in bytes from which an event's memory is returned to the operating system at once.
const huge = 16 << 20

// feed passes a dump's events to the stream. It reads an event only after the previous one was handled. So one event
// bounds the memory, and a slow sink slows down the server.
type feed struct {
	ctx    context.Context
	reader *Reader
	err    error
}

func (f *feed) handle(raw []byte) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	size, heartbeat := len(raw), len(raw) >= binlog.HeaderSize && binlog.IsHeartbeat(binlog.KindOf(raw))
	f.err = f.reader.stream.event(f.ctx, raw)
	if size >= huge {
		// The next event may be as large. Free this one's memory first, instead of letting the heap grow to twice the size.
		debug.FreeOSMemory()
	}
	if f.err != nil || !heartbeat {
		return f.err
	}
	err := f.reader.stillSame(f.ctx)
	if f.ctx.Err() == nil {
		f.err = err
	}
	return err
}

// Read delivers everything after Start.
func (r *Reader) Read(ctx context.Context, h replicator.Handler) error {
	r.stream.handler = h
	if r.stream.until == 0 {
		if err := r.stream.settleMembers(r.start.Order); err != nil {
			return err
		}
	}
	r.stream.ready()
	err := r.read(ctx, gomysql.Position{Name: r.place.file.name, Pos: uint32(r.stream.pos)})
	var torn *tornError
	if errors.As(err, &torn) {
		r.source.torn.add(torn.beginning)
	}
	return err
}

func (r *Reader) read(ctx context.Context, from gomysql.Position) error {
	f := &feed{ctx: ctx, reader: r}
	for {
		err := r.source.dump(ctx, r.server, from, r.source.cfg.Heartbeat, f)
		if f.err != nil {
			return f.err
		}
		if from, err = r.behindTorn(ctx, err); err != nil {
			return r.failed(ctx, err)
		}
	}
}

// The server reports all errors about a binlog with the same number, so only the text distinguishes them.
const (
	textPurged    = "purged"
	textNoFile    = "Could not find first log file"
	textPastEnd   = "position > file size"
	textAnonymous = "anonymous transaction when" // MySQL refuses to send transactions without GTIDs
	textTooLarge  = "max_allowed_packet"
	textTorn      = "truncated in the middle of event"
	errnoDenied   = gomysql.ER_ACCESS_DENIED_ERROR
	errnoSpecific = gomysql.ER_SPECIFIC_ACCESS_DENIED_ERROR
)

func (r *Reader) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	var my *gomysql.MyError
	if !errors.As(err, &my) {
		return fmt.Errorf("reading the binlog of %s: %w", r.source.mysql.Addr, err)
	}
	return failedDump(r.source.mysql.Addr, my)
}

// failedDump classifies the error with which a server answers the request for its binlog.
func failedDump(addr string, my *gomysql.MyError) error {
	text := my.Message
	err := fmt.Errorf("reading the binlog of %s: %w", addr, my)
	switch {
	case my.Code == errnoDenied || my.Code == errnoSpecific || my.Code == errnoNotAllowed:
		return replicator.Fatal(fmt.Errorf("%w (the account needs REPLICATION SLAVE)", err))
	case my.Code != errnoBinlogFatal:
		return err
	case strings.Contains(text, textNoFile) || strings.Contains(text, textPurged):
		return fmt.Errorf("%w: %w", replicator.ErrLost, err)
	case strings.Contains(text, textAnonymous):
		return fmt.Errorf("%w: %w. Run SET GLOBAL gtid_mode = ON_PERMISSIVE on the source, so that it sends these "+
			"transactions. Keep that setting until the views are past this position", replicator.ErrLost, err)
	case strings.Contains(text, textPastEnd):
		return replicator.Fatal(fmt.Errorf("%w: the source was set back to an earlier state. Rebuild the views", err))
	case strings.Contains(text, textTooLarge):
		return replicator.Fatal(err)
	}
	return err
}
