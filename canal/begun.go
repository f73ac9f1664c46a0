package canal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// births remembers when a binlog file was begun: one is asked for again and again.
type births struct {
	mu       sync.Mutex
	identity string
	file     string
	at       time.Time
}

// begun is when a binlog file was begun. No statement tells: its first event does.
func (s *Source) begun(ctx context.Context, srv server, file string) (time.Time, error) {
	s.births.mu.Lock()
	defer s.births.mu.Unlock()
	if s.births.identity == srv.identity && s.births.file == file {
		return s.births.at, nil
	}
	first := &firstEvent{}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	if err := s.dump(ctx, srv, gomysql.Position{Name: file, Pos: 4}, first); err != nil && !errors.Is(err, errEnough) && first.at.IsZero() {
		return time.Time{}, fmt.Errorf("beginning of binlog %s: %w", file, err)
	}
	s.births.identity, s.births.file, s.births.at = srv.identity, file, first.at
	return first.at, nil
}

// errEnough ends a dump that has shown what it was made for.
var errEnough = errors.New("enough")

// firstEvent takes the time of a file's first event.
type firstEvent struct{ at time.Time }

func (f *firstEvent) HandleEvent(e *replication.BinlogEvent) error {
	if e.Header.EventType != replication.FORMAT_DESCRIPTION_EVENT {
		return nil
	}
	f.at = time.Unix(int64(e.Header.Timestamp), 0)
	return errEnough
}
