package canal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// A server that dies while it writes its binlog leaves a file that ends within a transaction, or even within an event.
// An incomplete transaction was not committed: the server rolls it back when it starts, and begins another file. MySQL
// cuts the incomplete part off the file, and MariaDB leaves it. Error 1236 then stops MariaDB's replicas until the
// operator directs them to the next file. A Reader goes there automatically.
//
// Rows are delivered before their transaction's end is read, including those of an incomplete one. So the first Reader
// that reaches the file's end fails, and says where the transaction begins. The next one, which begins before it,
// delivers its rows as deletes, so that the pipeline re-reads the cells: see stream.again. If the program ends in
// between, it reaches the same end again.
//
// Tables may lack even transactions that the binlog has completely: if the redo log is not written at each commit
// (innodb_flush_log_at_trx_commit), and on MariaDB if a transaction also changed a table of another engine, because
// that is not committed in two phases. It is impossible to tell which rows this concerns, so a warning is logged.

// beginning is where a transaction begins.
type beginning struct {
	file string
	pos  int64
}

// tornError: a file ends within the transaction, and rows of it were delivered.
type tornError struct{ beginning }

func (e *tornError) Error() string {
	return fmt.Sprintf("the source died while it wrote the transaction that begins at %s:%d, and took it back: "+
		"its cells are read again", e.file, e.pos)
}

// torn remembers the transactions that their files don't end.
type torn struct {
	mu     sync.Mutex
	begins map[beginning]bool
}

func (t *torn) add(b beginning) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begins == nil {
		t.begins = map[beginning]bool{}
	}
	t.begins[b] = true
}

func (t *torn) all() map[beginning]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.begins)
}

// abandon drops a transaction that its file doesn't end. It fails if rows of it were delivered as if it had ended.
func (s *stream) abandon() error {
	tx := s.tx
	s.tx = transaction{}
	s.xa.drop(tx.held)
	clear(s.maps)
	if tx.rows && !tx.again {
		return &tornError{beginning{s.file.name, tx.from}}
	}
	return nil
}

// sayDied logs that the source died after its last write to a file.
func (r *Reader) sayDied(at placed) {
	r.source.cfg.Logger.Warn("the source died after it wrote this, and reading goes on with the next file. If its "+
		"innodb_flush_log_at_trx_commit is not 1, or transactions change tables of other engines than InnoDB, its "+
		"last transactions may be in the binlog and not in the tables: `replicator verify --repair` puts the views right",
		slog.String("source", r.source.cfg.Name), slog.String("position", token{placed: at}.String()))
}

// behindTorn is where to continue after an error of reading: the next file, if the error is that this file is torn and
// the server has moved on. Any other error is returned unchanged.
func (r *Reader) behindTorn(ctx context.Context, err error) (next gomysql.Position, _ error) {
	var my *gomysql.MyError
	if !errors.As(err, &my) || my.Code != errnoBinlogFatal || !strings.Contains(my.Message, textTorn) {
		return next, err
	}
	conn, failed := r.connect(ctx)
	if failed != nil {
		return next, errors.Join(err, failed)
	}
	defer conn.Close()
	files, failed := logFiles(ctx, conn)
	if failed != nil {
		return next, errors.Join(err, failed)
	}
	i := slices.IndexFunc(files, func(f logFile) bool { return f.name == r.stream.file.name })
	if i < 0 || i+1 == len(files) { // it may still be written
		return next, err
	}
	at := r.stream.pos
	if err := r.stream.abandon(); err != nil {
		return next, err
	}
	r.stream.shut = true      // that it died is said below
	r.stream.checksum = false // the beginning of a dump has none, before the file says whether its events do
	r.source.cfg.Logger.Warn("a binlog file ends within an event: the source died while it wrote. What was not whole "+
		"was not committed, and reading goes on with the next file. If the source's disk was full, verify the views",
		slog.String("source", r.source.cfg.Name), slog.String("position", fmt.Sprintf("%s:%d", files[i].name, at)),
		slog.String("next", files[i+1].name))
	return gomysql.Position{Name: files[i+1].name, Pos: 4}, nil
}
