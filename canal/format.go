package canal

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// The binlog lacks rows while binlog_format is not ROW. So the setting is read at the start, and again when a statement
// without row events changed a watched table: the error must say that the operator has to correct the setting first.

// loggedAsText describes a change of a table by a statement without rows in the binlog.
const loggedAsText = "was changed by a statement logged as text (binlog_format was not ROW in that session)"

const mendFormat = "SET GLOBAL binlog_format = ROW, and set it in my.cnf. End open sessions: they keep their old format"

// textual returns the server's binlog_format if it is not ROW; otherwise "". It also keeps the result for Stats.
func (s *Source) textual(ctx context.Context, db querier) string {
	format, err := variable(ctx, db, "binlog_format")
	if err != nil {
		return "" // if the connection failed, another query will end reading
	}
	if strings.EqualFold(format, "ROW") {
		format = ""
	}
	s.format.Store(&format)
	return format
}

func (s *Source) warnOfFormat(ctx context.Context, db querier) {
	if format := s.textual(ctx, db); format != "" {
		s.cfg.Logger.Warn("the source logs statements, so the binlog lacks the rows that they change in watched "+
			"tables. on_unlogged says what happens to the views. "+mendFormat,
			slog.String("source", s.cfg.Name), slog.String("binlog_format", format))
	}
}

// byFormat adds the server's binlog_format to the beginning of the error, if that setting is why a statement came
// without rows.
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
		return fmt.Errorf("binlog_format is %s on the source: %s. This setting caused the error: %w", format,
			mendFormat, err)
	}
	return err
}
