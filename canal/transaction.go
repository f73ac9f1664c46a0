package canal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/remedy"
	"replicator/internal/uuid"
)

type transaction struct {
	open       bool     // the transaction's GTID or BEGIN was read, but not yet its end
	standalone bool     // the transaction is a single statement, without COMMIT
	xa         bool     // the transaction ends with XA PREPARE: its rows are not committed yet
	held       *held    // changes to deliver at the transaction's end
	sought     []sought // rows to look up by primary key at the transaction's end
	xid        string   // the prepared XA transaction that this transaction commits
	skip       bool     // views include the transaction already, because another server sent it
	again      bool     // sinks may already have the changes, so the pipeline must re-read the cells
	anonymous  bool     // the transaction has no GTID: see token.Anonymous
	explicit   bool     // BEGIN or XA START began the transaction
	rows       bool     // the transaction changed watched rows
	from       int64
	at         time.Time
	run        gtidRun
	sid        sid
}

// A transaction in a binlog:
//
//	MySQL    GTID, Query BEGIN, rows…, XID            GTID, Query (DDL)
//	         GTID, Query BEGIN, rows…, Query COMMIT   (engines without transactions)
//	         GTID, TransactionPayload
//	         GTID, Query XA START, rows…, Query XA END, XA_PREPARE; later GTID, Query XA COMMIT
//	MariaDB  GTID (standalone flag), Query            GTID, rows…, XID or Query COMMIT
//	         GTID (prepared flag), rows…, XA_PREPARE; later GTID (completed flag), Query XA COMMIT
//
// ROLLBACK TO, SAVEPOINT and statements inside a transaction do not end it.

// origin is where transactions were first executed: a server's UUID with a tag, or a MariaDB domain and server.
type origin struct {
	sid sid
	id  int32 // the origin's index in history.names
}

// originCache has the origins by the form that an event has of them, so that an event allocates no strings.
type originCache struct {
	mysql map[[16]byte]origin
	maria map[[2]uint32]origin
	tags  map[string]origin // GTIDs with a tag
}

func newOriginCache() originCache {
	return originCache{mysql: map[[16]byte]origin{}, maria: map[[2]uint32]origin{}, tags: map[string]origin{}}
}

func (s *stream) mysqlGTID(ctx context.Context, h binlog.Header, body []byte) error {
	c := binlog.Cursor{B: body}
	c.Take(1)
	id, gno := c.Take(16), int64(c.Uint(8))
	if err := c.Err("GTID"); err != nil {
		return s.broken(err)
	}
	tx := transaction{}
	if c.Left() >= 1+16+7 && c.Uint8() == replication.LogicalTimestampTypeCode {
		c.Take(16)
		if micros := c.Uint(7) &^ binlog.ImmediateTimestampExtended; micros != 0 {
			tx.at = time.UnixMicro(int64(micros))
		}
	}
	if h.Kind == replication.GTID_EVENT {
		from, ok := s.origins.mysql[[16]byte(id)]
		if !ok {
			from = s.newOrigin(sid{name: uuid.Text(id)})
			s.origins.mysql[[16]byte(id)] = from
		}
		tx.sid, tx.run = from.sid, gtidRun{from.id, gno, gno}
	} else {
		tx.anonymous = true
	}
	return s.begin(ctx, h, tx)
}

func (s *stream) newOrigin(x sid) origin { return origin{x, s.history.id(x)} }

// taggedGTID reads the event of a MySQL GTID with a tag. go-mysql's slow decoder is good enough, because such
// transactions are rare.
func (s *stream) taggedGTID(ctx context.Context, h binlog.Header, body []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.broken(errors.New("the GTID event is damaged"))
		}
	}()
	var e replication.GtidTaggedLogEvent
	if err := e.Decode(body); err != nil || len(e.SID) != 16 {
		return s.broken(errors.New("the GTID event is damaged"))
	}
	name := uuid.Text(e.SID)
	if tag := e.Tag.String(); tag != "" {
		name += ":" + tag
	}
	from, ok := s.origins.tags[name]
	if !ok {
		from = s.newOrigin(sid{name: name})
		s.origins.tags[name] = from
	}
	tx := transaction{sid: from.sid, run: gtidRun{from.id, e.GNO, e.GNO}}
	if e.ImmediateCommitTimestamp != 0 {
		tx.at = time.UnixMicro(int64(e.ImmediateCommitTimestamp))
	}
	return s.begin(ctx, h, tx)
}

func (s *stream) mariaGTID(ctx context.Context, h binlog.Header, body []byte) error {
	c := binlog.Cursor{B: body}
	seq, domain, flags := int64(c.Uint(8)), uint32(c.Uint(4)), c.Uint8()
	if err := c.Err("GTID"); err != nil {
		return s.broken(err)
	}
	from, ok := s.origins.maria[[2]uint32{domain, h.Server}]
	if !ok {
		from = s.newOrigin(sid{strconv.FormatUint(uint64(domain), 10), strconv.FormatUint(uint64(h.Server), 10)})
		s.origins.maria[[2]uint32{domain, h.Server}] = from
	}
	for _, g := range s.guards {
		if err := g.see(from.sid, seq); err != nil {
			return err
		}
	}
	return s.begin(ctx, h, transaction{
		sid: from.sid, run: gtidRun{from.id, seq, seq},
		standalone: flags&binlog.MariaStandaloneFlag != 0,
		xa:         flags&binlog.MariaXAPreparedFlag != 0,
	})
}

func (s *stream) begin(ctx context.Context, h binlog.Header, tx transaction) error {
	if s.tx.open { // without an end event, a transaction ends where the next one begins
		end, ended := s.pos, s.ended
		s.pos, s.ended = s.pos-int64(h.Size), s.prior
		if err := s.committed(ctx); err != nil {
			return err
		}
		s.pos, s.ended = end, ended
	}
	tx.open, tx.from = true, s.pos-int64(h.Size)
	if tx.at.IsZero() {
		tx.at = time.Unix(int64(h.Time), 0)
	}
	if s.skip != nil && tx.run.last != 0 && s.skip.Contains(tx.sid.name, tx.run.last) {
		tx.skip = true
	}
	tx.again = s.again != nil && tx.run.last != 0 && s.again.Contains(tx.sid.name, tx.run.last) ||
		s.torn[beginning{s.file.name, tx.from}] || orderOf(0, s.file.number, tx.from) < s.againTo
	s.tx = tx
	clear(s.maps)
	return nil
}

// previousGTIDs handles the event Previous_gtids at the beginning of a MySQL file. It lists all transactions before the
// file. The list is needed only if the transactions before the start position are unknown.
func (s *stream) previousGTIDs(ctx context.Context, body []byte) error {
	if s.untilGTID == nil {
		if err := s.idle(); err != nil || s.begun == nil { // the start of a new file is between two transactions
			return err
		}
		return s.begun(ctx)
	}
	var e replication.PreviousGTIDsEvent
	if err := e.Decode(body); err != nil {
		return s.broken(errors.New("the list of previous GTIDs is damaged"))
	}
	set, err := gtid.Parse(s.flavor, e.GTIDSets)
	if err != nil {
		return s.broken(errors.New("the list of previous GTIDs is damaged"))
	}
	s.untilGTID.Join(set)
	return nil
}

// gtidList handles the event Gtid_list at the beginning of a MariaDB file. It lists each domain's last transaction
// before the file.
func (s *stream) gtidList(h binlog.Header, body []byte) error {
	if h.Flags&binlog.ArtificialFlag != 0 {
		return nil
	}
	if s.untilGTID == nil {
		return s.idle()
	}
	c := binlog.Cursor{B: body}
	for range c.Uint(4) & (1<<28 - 1) {
		domain, server, seq := c.Uint(4), c.Uint(4), int64(c.Uint(8))
		if c.Bad {
			return s.broken(binlog.ErrShort)
		}
		s.untilGTID.AddMaria(strconv.FormatUint(domain, 10), strconv.FormatUint(server, 10), seq)
	}
	return nil
}

// queryHeader reads what precedes a statement's text: its database, and its status variables. `extra` is the
// number of bytes that a LOAD DATA event has before the variables; 0 for other events.
func queryHeader(body []byte, extra int) (c binlog.Cursor, database, vars []byte) {
	c = binlog.Cursor{B: body}
	c.Take(8)
	nameLen := int(c.Uint8())
	c.Take(2)
	varsLen := int(c.Uint(2))
	c.Take(extra)
	vars = c.Take(varsLen)
	database = c.Take(nameLen)
	c.Take(1)
	return c, database, vars
}

// query handles a statement logged as text. `extra` is the number of bytes that a LOAD DATA event has before the status
// variables; 0 for other events.
func (s *stream) query(ctx context.Context, h binlog.Header, body []byte, extra int) (ended bool, err error) {
	c, database, vars := queryHeader(body, extra)
	text := c.Rest()
	if err := c.Err("statement"); err != nil {
		return false, err
	}
	return s.statement(ctx, h, database, text, vars)
}

func (s *stream) compressedQuery(ctx context.Context, h binlog.Header, body []byte) (ended bool, err error) {
	c, database, vars := queryHeader(body, 0)
	text, err := inflateMaria(c.Rest(), nil)
	if c.Bad || err != nil {
		return false, errors.New("a compressed statement is damaged")
	}
	return s.statement(ctx, h, database, text, vars)
}

func (s *stream) statement(ctx context.Context, h binlog.Header, database, text, vars []byte) (ended bool, err error) {
	st, ok := transactionControl(text)
	if !ok {
		if st, err = s.classify(ctx, string(database), text, vars); err != nil {
			return false, err
		}
	}
	switch st.effect {
	case effectBegin:
		if !s.tx.open {
			if err := s.begin(ctx, h, transaction{}); err != nil {
				return false, err
			}
		}
		s.tx.explicit = true
		return false, nil
	case effectXABegin:
		s.tx.xa, s.tx.explicit = true, true
		return false, nil
	case effectSave, effectXAPart:
		return false, nil
	case effectCommit:
		return true, nil
	case effectXAEnd:
		return true, s.endXA(text)
	case effectRollback, effectPartial:
		if err := s.rolledBack(); err != nil {
			return false, err
		}
		return st.effect == effectRollback, nil
	case effectRows, effectAlter:
		if err := s.changed(ctx, st); err != nil {
			return false, err
		}
	}
	// On MySQL, a statement outside of BEGIN is a whole transaction. On MariaDB, the GTID event says whether the
	// statement is one.
	if s.flavor == gtid.MariaDB && s.tx.open {
		return s.tx.standalone, nil
	}
	return !s.tx.explicit, nil
}

// wayOut tells the operator how to go on after changes that can't be read from the binlog.
const wayOut = "`replicator rebuild " + remedy.Views + "` fills the table's views again. To skip this transaction, " +
	"stop the program, run " + checkpointSet + " with the position of its end (SHOW BINLOG EVENTS shows it), and " +
	"start it again"

// checkpointSet is the command that lets views continue at another position. The program must not be running.
const checkpointSet = "`replicator checkpoint set --pos FILE:POS " + remedy.Views + "`"

// rolledBack reports a transaction that was rolled back, entirely or in part. It is in the binlog only if it changed a
// table without transactions, or on MariaDB created or dropped a temporary table. Its rows were already delivered, and
// the log doesn't say which of them stayed.
func (s *stream) rolledBack() error {
	if s.silent() || !s.tx.rows {
		return nil
	}
	var errs []error
	for _, t := range s.rowed {
		errs = append(errs, s.unlogged(t.Name, fmt.Errorf("table %s was changed in a transaction that was rolled back, "+
			"wholly or in part. The binlog has the transaction because it also created or dropped a temporary table, "+
			"or changed a table without transactions. Its rows were passed to the views before the rollback: %w",
			t.Name, replicator.ErrUnlogged)))
	}
	return errors.Join(errs...)
}

// unlogged tells the handler that changes of a table are not in the log. If the handler returns an error, reading ends.
func (s *stream) unlogged(table string, err error) error {
	table = nameOf(table)
	if !replicator.IsOfViews(err) {
		err = replicator.OfTable(table, err)
	}
	if s.tx.xa {
		s.holding().setTable(table, err)
		return nil
	}
	return s.handler.Unlogged(table, orderOf(s.epoch, s.file.number, s.pos), err)
}

func (s *stream) changed(ctx context.Context, st statement) error {
	if s.silent() {
		return nil
	}
	lost := replicator.ErrUnlogged
	if st.empties {
		lost = replicator.ErrEmptied
	}
	for _, table := range st.tables {
		if st.effect == effectRows {
			if nameOf(table) != table { // one of a pattern's tables was emptied; the others still have rows
				lost = replicator.ErrUnlogged
			}
			err := fmt.Errorf("table %s %s: %w", table, st.what, lost)
			if s.byFormat != nil {
				err = s.byFormat(ctx, st, err)
			}
			if err := s.unlogged(table, err); err != nil {
				return err
			}
		}
		if st.effect == effectRows && st.columns.effect == columnsStay {
			continue
		}
		if err := s.altered(ctx, st, table); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) altered(ctx context.Context, st statement, table string) error {
	clear(s.plans)
	clear(s.maps)
	if s.layouts == nil {
		return nil
	}
	if s.tables.byID[table] == nil { // a table that may match a pattern
		return s.regroup(ctx, table)
	}
	if st.columns.effect == columnsAreMade {
		s.tables.made(table)
	}
	var rewritten []string
	var anyOf bool
	after, reread := s.layouts.altered(table, s.here(gtidRun{}).order, func(before *layout, told bool) *layout {
		rewritten, anyOf = st.columns.rewrites(before, s.tables.byID[table].Body, s.flavor)
		anyOf = anyOf && !(before == nil && told)
		return st.columns.after(before, s.flavor)
	})
	if err := s.keep(ctx, after); err != nil {
		return err
	}
	if reread {
		if err := s.reread(ctx, table); err != nil {
			return err
		}
	}
	return s.columnsChanged(st, table, rewritten, anyOf)
}

// mariaGuard proves that another MariaDB server has the history that was read before. For each domain, the log must
// have the transaction that was read last: its server S and its number N. Or the Gtid_list at the file's beginning must
// name it. N alone proves nothing, because two servers may give N to different transactions. Otherwise, once the log
// has a number from N on, there are three cases:
//
//  1. It also has earlier transactions of S: the histories diverged, because a replica without the latest transactions
//     was promoted.
//  2. S wrote the transaction, and the log has no earlier one of S: the binlog was begun later than the server's data,
//     as on a replica made from a backup (gtid_slave_pos). The transactions after N, up to this one, are lost, as after
//     a purge.
//  3. The log has nothing of S: this may be an unrelated server. Views must not be filled from it unless the operator
//     asks for it.
type mariaGuard struct {
	want    map[string]int64  // by domain: N; removed when the log has the transaction
	from    map[string]string // by domain: S
	earlier map[string]bool   // domains in which the log has an earlier transaction of S
	cause   error             // the error that a refusal wraps; nil: ErrLost in cases 1 and 2, none in case 3
}

func newMariaGuard(applied, fileStart *gtid.Set, cause error) *mariaGuard {
	g := &mariaGuard{want: map[string]int64{}, from: applied.Servers, earlier: map[string]bool{}, cause: cause}
	for domain, runs := range applied.Runs {
		last := runs[0].Last
		have, author := fileStart.Runs[domain], fileStart.Servers[domain] == applied.Servers[domain]
		if len(have) > 0 && author && have[0].Last == last {
			continue
		}
		if last > 0 {
			g.want[domain] = last
			g.earlier[domain] = len(have) > 0 && author && have[0].Last < last
		}
	}
	return g
}

func (g *mariaGuard) see(x sid, seq int64) error {
	last, ok := g.want[x.name]
	author := x.server == g.from[x.name]
	switch {
	case !ok:
		return nil
	case seq < last:
		g.earlier[x.name] = g.earlier[x.name] || author
		return nil
	case seq == last && author:
		delete(g.want, x.name)
		return nil
	}
	met := fmt.Sprintf("the last GTID that was read is %s-%s-%d, and its binlog has %s-%s-%d instead",
		x.name, g.from[x.name], last, x.name, x.server, seq)
	cause := g.cause
	if cause == nil && (author || g.earlier[x.name]) {
		cause = replicator.ErrLost
	}
	switch {
	case author && !g.earlier[x.name]:
		return replicator.Fatal(fmt.Errorf("%w: this server's binlog lacks transactions: %s. Point the "+
			"source at a server whose binlog has them", cause, met))
	case cause != nil:
		return replicator.Fatal(fmt.Errorf("%w: this server lacks transactions that were read: %s. Point the source "+
			"at a server that has them", cause, met))
	}
	return replicator.Fatal(fmt.Errorf("this server lacks transactions that were read: %s. Nothing proves "+
		"that it replaced the server that had them. Point the source at a server that has them. Or "+
		"`replicator rebuild "+remedy.Views+"` fills the views again from this one", met))
}
