package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/go-sql-driver/mysql"
)

// rawRead reads the whole binlog and decodes nothing: the least that a reader on this library costs.
func (l *lab) rawRead(ctx context.Context) error {
	first, last, err := binlog(ctx, l.sourceDB)
	if err != nil {
		return err
	}
	bar := l.show.bar("reading the binlog raw", 0)
	defer bar.done()
	reader := &rawReader{last: last, ended: make(chan struct{})}
	took, err := l.measure(func() error { return reader.read(ctx, l.source.DSN(""), l.source.Kind.IsMariaDB(), first) })
	if err != nil {
		return err
	}
	if least := int64(l.cells) * int64(l.body); reader.bytes < least {
		return fmt.Errorf("the binlog held %d bytes, and the bodies alone are %d", reader.bytes, least)
	}
	l.add(result{Stage: rawReadStage, What: "binlog by go-mysql in raw mode, nothing decoded",
		Unit: "cell", Units: l.cells}, took)
	return nil
}

// binlog is where the server's binlog begins and, now, ends.
func binlog(ctx context.Context, db *sql.DB) (first, last gomysql.Position, err error) {
	rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return first, last, err
	}
	defer rows.Close()
	columns, err := rows.Columns() // MySQL has a third one
	if err != nil {
		return first, last, err
	}
	into := make([]any, len(columns))
	into[0], into[1] = &last.Name, &last.Pos
	for i := 2; i < len(into); i++ {
		into[i] = new(sql.RawBytes)
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return first, last, err
		}
		if first.Name == "" {
			first = gomysql.Position{Name: last.Name, Pos: 4}
		}
	}
	return first, last, rows.Err()
}

// rawReader counts what it is given until the end of the binlog.
type rawReader struct {
	last  gomysql.Position
	file  string
	bytes int64
	once  sync.Once
	ended chan struct{} // closed when last is reached
}

// HandleEvent implements replication.EventHandler: called by the syncer's goroutine, with no channel between.
func (r *rawReader) HandleEvent(e *replication.BinlogEvent) error {
	if rotate, ok := e.Event.(*replication.RotateEvent); ok {
		r.file = string(rotate.NextLogName)
		return nil
	}
	r.bytes += int64(len(e.RawData))
	if r.file == r.last.Name && e.Header.LogPos >= r.last.Pos {
		r.once.Do(func() { close(r.ended) })
	}
	return nil
}

func (r *rawReader) read(ctx context.Context, dsn string, mariadb bool, from gomysql.Position) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	flavor := gomysql.MySQLFlavor
	if mariadb {
		flavor = gomysql.MariaDBFlavor
	}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 4_000_000_000, Flavor: flavor, Host: host, Port: uint16(number), User: cfg.User, Password: cfg.Passwd,
		RawModeEnabled: true, SynchronousEventHandler: r, DisableRetrySync: true, Logger: slog.New(slog.DiscardHandler),
	})
	defer syncer.Close()
	streamer, err := syncer.StartSync(from)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	waiting, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { // with a handler the streamer delivers no events, only how it ended
		_, err := streamer.GetEvent(waiting)
		failed <- err
	})
	defer func() { cancel(); wg.Wait() }()
	select {
	case <-r.ended:
		return nil
	case err := <-failed:
		return fmt.Errorf("reading the binlog: %w", err)
	}
}

// rawScan reads every cell by one SELECT and decodes nothing: the least that a fill's scan costs.
func (l *lab) rawScan(ctx context.Context) error {
	bar := l.show.bar("selecting the cells", l.cells)
	defer bar.done()
	took, err := l.measure(func() error {
		rows, err := l.sourceDB.QueryContext(ctx,
			"SELECT row_key, column_name, ref_key, body FROM "+sourceDatabase+".cell ORDER BY added_at")
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		var key, column, ref, body sql.RawBytes
		for rows.Next() {
			if err := rows.Scan(&key, &column, &ref, &body); err != nil {
				return err
			}
			if n++; n%10_000 == 0 {
				bar.add(10_000)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if n != l.cells {
			return fmt.Errorf("the source holds %d cells, not %d", n, l.cells)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.add(result{Stage: rawScanStage, What: "SELECT of every cell", Unit: "cell", Units: l.cells}, took)
	return nil
}
