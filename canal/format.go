package canal

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// A server that was set to log statements, or that was restarted without binlog_format = ROW in its configuration,
// omits rows from the binlog. The setting is read at the start, and when a statement arrives that changed a watched
// table, because the operator must fix it first. MySQL 9.7 still has it, deprecated.

// loggedAsText describes a change of a table by a statement without rows in the binlog.
const loggedAsText = "was changed by a statement logged as text (binlog_format was not ROW in that session)"

// mendFormat is how to make a server log rows.
const mendFormat = "SET GLOBAL binlog_format = ROW, and in the server's configuration; sessions that are open keep theirs"

// textual is the server's binlog_format if it is not ROW; otherwise "". Stats show it until it is read again.
func (s *Source) textual(ctx context.Context, db querier) string {
	format, err := variable(ctx, db, "binlog_format")
	if err != nil {
		return "" // a connection that fails ends reading elsewhere
	}
	if strings.EqualFold(format, "ROW") {
		format = ""
	}
	s.format.Store(&format)
	return format
}

// warnOfFormat says at the start that the server logs statements.
func (s *Source) warnOfFormat(ctx context.Context, db querier) {
	if format := s.textual(ctx, db); format != "" {
		s.cfg.Logger.Warn("the source logs statements: what they change in watched tables is not in the binlog, and "+
			"on_unlogged says what becomes of their views. "+mendFormat,
			slog.String("source", s.cfg.Name), slog.String("binlog_format", format))
	}
}

// byFormat mentions the server's binlog_format first, if that is why a statement came without rows.
func (r *Reader) byFormat(ctx context.Context, by statement, err error) error {
	if by.what != loggedAsText {
		return err
	}
	conn, failed := r.connect(ctx)
	if failed != nil {
		return err
	}
	defer conn.Close()
	if format := r.source.textual(ctx, conn); format != "" {
		return fmt.Errorf("binlog_format is %s on the source: %s. Then: %w", format, mendFormat, err)
	}
	return err
}
