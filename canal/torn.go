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

// A server that dies while it writes its binlog leaves a file that ends inside a transaction, or even inside an event.
// When it starts, it rolls the transaction back and begins a new file. MySQL cuts the incomplete part off the old file,
// MariaDB leaves it. A Reader continues with the next file.
//
// A Reader delivers rows before it has read the end of their transaction. So the first Reader that reaches the file's
// end fails, and remembers where the transaction begins. The next one delivers the transaction's rows as deletes with
// AnyVersion, so that the pipeline re-reads their cells (stream.torn).
//
// If the redo log is not written at each commit, tables may even lack transactions that are complete in the binlog.
// Nothing shows which ones, so a warning is logged.

type beginning struct {
	file string
	pos  int64
}

// tornError means that a binlog file ends inside a transaction of which rows were already delivered.
type tornError struct{ beginning }

func (e *tornError) Error() string {
	return fmt.Sprintf("the source died while it wrote the transaction that begins at %s:%d, and rolled it back. "+
		"The cells that it changed are read again", e.file, e.pos)
}

// torn has the beginnings of transactions that are incomplete, because the server died while it wrote them.
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

// abandon drops the current transaction, because its file ended before the transaction did. It fails if rows of the
// transaction were delivered, because sinks may now show changes that the server lost. Rows whose cells the pipeline
// re-reads anyway (tx.again) are no reason to fail.
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

func (r *Reader) sayDied(at placed) {
	r.source.cfg.Logger.Warn("the source died after it wrote this position. Reading continues with the next file. If "+
		"its innodb_flush_log_at_trx_commit is not 1, or transactions change tables of other engines than InnoDB, its "+
		"last transactions may be in the binlog but not in the tables. `replicator verify --repair` corrects the views",
		slog.String("source", r.source.cfg.Name), slog.String("position", token{placed: at}.String()))
}

// behindTorn returns the position at which to continue after a dump failed with err: the next file, if the server died
// while it wrote this one and has begun a new one. Any other error is returned.
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
	if i < 0 || i+1 == len(files) { // the server may still be writing this file
		return next, err
	}
	at := r.stream.pos
	if err := r.stream.abandon(); err != nil {
		return next, err
	}
	r.stream.shut = true      // the warning below says that the server died, so Reader.follows must not say so again
	r.stream.checksum = false // a dump begins without checksums, until the file says whether its events have them
	r.source.cfg.Logger.Warn("a binlog file ends within an event, because the source died while it wrote. The "+
		"incomplete transaction was not committed. Reading continues with the next file. If the source's "+
		"disk was full, verify the views",
		slog.String("source", r.source.cfg.Name), slog.String("position", fmt.Sprintf("%s:%d", files[i].name, at)),
		slog.String("next", files[i+1].name))
	return gomysql.Position{Name: files[i+1].name, Pos: 4}, nil
}
