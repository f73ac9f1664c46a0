package canal

import (
	"context"
	"errors"
	"fmt"
	"io"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"replicator/canal/binlog"
)

// scout reads the log's statements from the start of reading to the log's current end, for tables whose columns are
// unknown at the start. After the last statement that changed a table's columns, the table has its current columns;
// without such a statement, it has had them since the start.
//
// The reader must then read this part of the log a second time. To avoid that, a scout runs only if the server doesn't
// name columns in the log.
type scout struct {
	ctx    context.Context
	stream *stream          // reads the statements; it delivers nothing
	until  int64            // where to stop: the end of the log when the last table's current columns were read
	last   map[string]int64 // by table: where the last statement that changed the table's columns ends
}

func (s *scout) handle(raw []byte) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	h, err := binlog.ParseHeader(raw)
	if err != nil {
		return err
	}
	body, err := s.stream.body(h, raw)
	if err != nil {
		return err
	}
	if err := s.stream.advance(h); err != nil {
		return err
	}
	switch h.Kind {
	case replication.ROTATE_EVENT:
		return s.rotate(h, body)
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		if err := s.statement(h, body); err != nil {
			return err
		}
	}
	if s.stream.order(s.stream.pos) >= s.until {
		return errEnough
	}
	return nil
}

func (s *scout) rotate(h binlog.Header, body []byte) error {
	c := binlog.Cursor{B: body}
	pos := int64(c.Uint(8))
	file, err := parseFileName(string(c.Rest()))
	if err != nil {
		return err
	}
	if h.Flags&binlog.ArtificialFlag == 0 && h.LogPos != 0 {
		pos = 4
	}
	s.stream.file, s.stream.pos = file, pos
	return nil
}

func (s *scout) statement(h binlog.Header, body []byte) error {
	c, database, vars := queryHeader(body, 0)
	text := c.Rest()
	if c.Bad {
		return fmt.Errorf("statement: %w", binlog.ErrShort)
	}
	if h.Kind == replication.MARIADB_QUERY_COMPRESSED_EVENT {
		var err error
		if text, err = inflateMaria(text, nil); err != nil {
			return err
		}
	}
	if _, known := transactionControl(text); known {
		return nil
	}
	st, err := s.stream.classify(s.ctx, string(database), text, vars)
	if err != nil {
		return err
	}
	if st.columns.changes() {
		for _, table := range st.tables {
			s.last[table] = s.stream.order(s.stream.pos)
		}
	}
	return nil
}

func (a alteration) changes() bool {
	switch a.effect {
	case columnsStay:
		return false
	case columnsChange:
		r := &alterReader{}
		for _, p := range split(a.words) {
			if !r.option(p) || !r.part(p) {
				return true
			}
		}
		return len(r.changes) > 0 || r.convert != ""
	}
	return true
}

// scoutLayouts finds out from which position on each table has its current columns.
func (r *Reader) scoutLayouts(ctx context.Context, tables []*watched) error {
	if len(tables) == 0 || r.server.names {
		return nil
	}
	s := &scout{ctx: ctx, last: map[string]int64{}, stream: &stream{flavor: r.server.flavor, charsets: r.charsets,
		tables: r.tables, epoch: r.place.epoch, file: r.place.file, pos: 4}}
	for _, w := range tables {
		s.until = max(s.until, w.end.order(r.place.epoch))
	}
	err := r.source.dump(ctx, r.server, gomysql.Position{Name: r.place.file.name, Pos: 4}, 0, s)
	if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, io.EOF) {
		return r.failed(ctx, err)
	}
	start := r.place.order()
	for _, w := range tables {
		r.layouts.known(w.id, max(s.last[w.id], start), start)
	}
	return nil
}
