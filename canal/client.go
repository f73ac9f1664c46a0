package canal

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"replicator/canal/binlog"
)

// clientOf returns two settings of the client that sent a statement: its sql_mode, and the collation of its
// character_set_client. It finds them in the statement's status variables (vars), near the beginning. A missing value
// is 0.
func clientOf(vars []byte) (mode sqlMode, collation uint64) {
	const (
		flagsCode         = 0
		modeCode          = 1
		oldCatalogCode    = 2 // a catalog name with a zero byte at its end, which newer servers leave out
		autoIncrementCode = 3
		charsetCode       = 4
		catalogCode       = 6 // a catalog name without a zero byte at its end
	)
	for c := (binlog.Cursor{B: vars}); c.Left() > 0; {
		switch c.Uint8() {
		case flagsCode, autoIncrementCode:
			c.Take(4)
		case modeCode:
			mode = sqlMode(c.Uint(8))
		case oldCatalogCode:
			c.Take(int(c.Uint8()) + 1)
		case catalogCode:
			c.Take(int(c.Uint8()))
		case charsetCode:
			return mode, c.Uint(2)
		default:
			return mode, 0
		}
	}
	return mode, 0
}

// classify determines what a statement does. The servers log most statements in the client's character set. They log
// CREATE TABLE … SELECT, CREATE TABLE … LIKE and LOAD DATA in UTF-8. So a statement that has no effect if read in the
// client's character set is read again as UTF-8.
func (s *stream) classify(ctx context.Context, database string, text, vars []byte) (statement, error) {
	mode, collation := clientOf(vars)
	decoded, err := s.charsets.Decode(ctx, collation, text)
	if err != nil {
		return statement{}, fmt.Errorf("a statement in the binlog: %w", err)
	}
	st := classifyStatement(decoded, database, mode, s.tables.mentions)
	if st.effect == effectNone && !bytes.Equal(decoded, text) && utf8.Valid(text) {
		st = classifyStatement(text, database, mode, s.tables.mentions)
	}
	return st, nil
}
