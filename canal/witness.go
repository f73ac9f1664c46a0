package canal

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"replicator"
	"replicator/canal/binlog"
)

// placed is a position in a binlog file, with data that tells this file and position from others of the same name.
type placed struct {
	File string `json:"file"`
	Pos  int64  `json:"pos"`
	Born uint32 `json:"born,omitempty"` // when the file was begun (Unix seconds); 0: unknown
	// Event ends at Pos. It is unknown if nothing was read before Pos, or at the file's beginning.
	Event event `json:"event,omitzero"`
}

// asked returns where the event that ends at Pos begins. If that event is unknown, or begins beyond 4 GiB, where the
// server can't start to send, asked returns the file's beginning (4).
func (p placed) asked() int64 {
	from := p.Pos - int64(p.Event.Size)
	if p.Event.unknown() || from <= 4 || from >= 1<<32 {
		return 4
	}
	return from
}

// event tells an event from others at the same position, because the checksum covers the event's time and contents.
type event struct {
	Size uint32 `json:"size"`
	Sum  uint32 `json:"sum"`
}

func (e event) unknown() bool { return e.Size == 0 }

// eventOf describes an event without the server's checksum, which the server may or may not add. We compute our own.
func eventOf(h binlog.Header, raw []byte, checksum bool) event {
	if checksum && len(raw) >= binlog.HeaderSize+binlog.ChecksumSize {
		raw = raw[:len(raw)-binlog.ChecksumSize]
	}
	return event{h.Size, crc32.ChecksumIEEE(raw)}
}

// errNoEvent means that no event begins at a log position where one began before.
var errNoEvent = errors.New("no event begins there")

// witness asks the server when a binlog file was begun and which event ends at a log position. It reads the binlog,
// because no SQL statement returns a file's beginning or an event's checksum.
func (s *Source) witness(ctx context.Context, srv server, p placed) (placed, error) {
	from := p.asked()
	w := &witness{placed: placed{File: p.File, Pos: p.Pos, Event: p.Event}, first: from == 4}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	err := s.dump(ctx, srv, gomysql.Position{Name: p.File, Pos: uint32(from)}, 0, w)
	var refused *gomysql.MyError
	var network net.Error
	switch {
	case w.done:
		return w.placed, nil
	case errors.As(err, &refused) && refused.Code != errnoBinlogFatal:
		return w.placed, failedDump(s.mysql.Addr, refused)
	case errors.As(err, &refused) && (strings.Contains(refused.Message, textNoFile) ||
		strings.Contains(refused.Message, textPurged)):
		return w.placed, fmt.Errorf("%w: %w", replicator.ErrLost, refused)
	case refused != nil, w.Born != 0 && ctx.Err() == nil && !errors.As(err, &network) && !isCut(err):
		return w.placed, fmt.Errorf("binlog %s:%d: %w: %w", p.File, from, errNoEvent, err)
	}
	return w.placed, fmt.Errorf("looking at binlog %s:%d: %w", p.File, from, err)
}

// isCut reports whether err means that the connection ended, so that the answer is unknown.
func isCut(err error) bool {
	return errors.Is(err, gomysql.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// witness reads the first events that the server sends from a binlog file. It keeps when the file was begun (the time
// of the file's first event), and the first event after the requested position. If `first` is set, only the file's
// first event is needed.
type witness struct {
	placed
	first    bool
	checksum bool
	done     bool
}

var errEnough = errors.New("enough")

func (w *witness) handle(raw []byte) error {
	h, err := binlog.ParseHeader(raw)
	switch {
	case err != nil:
		return err
	case h.Kind == replication.FORMAT_DESCRIPTION_EVENT:
		w.Born, w.checksum = h.Time, hasChecksum(raw)
		w.done = w.first
	case h.Kind == replication.ROTATE_EVENT && (h.Flags&binlog.ArtificialFlag != 0 ||
		h.LogPos == 0), binlog.IsHeartbeat(h.Kind):
		return nil
	case h.Kind == replication.MARIADB_START_ENCRYPTION_EVENT && h.LogPos != uint32(w.Pos):
		return nil // MariaDB repeats the event if reading starts inside the file
	default:
		w.Event, w.done = eventOf(h, raw, w.checksum), true
	}
	if w.done {
		return errEnough
	}
	return nil
}

func (s *Source) begun(ctx context.Context, srv server, file string) (time.Time, error) {
	s.births.mu.Lock()
	defer s.births.mu.Unlock()
	if s.births.identity == srv.identity && s.births.file == file {
		return s.births.at, nil
	}
	w, err := s.witness(ctx, srv, placed{File: file, Pos: 4})
	if err != nil {
		return time.Time{}, err
	}
	s.births.identity, s.births.file, s.births.at = srv.identity, file, time.Unix(int64(w.Born), 0)
	return s.births.at, nil
}
