package canal

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"replicator/canal/binlog"
)

// clientOf returns two settings of the client that sent a statement: its sql_mode, and the collation of its
// character_set_client. A missing value is 0. vars are the statement's status variables. The servers write them in a
// fixed order, with these two near the beginning. Later variables differ between servers and are not read.
func clientOf(vars []byte) (mode sqlMode, collation uint64) {
	const (
		flagsCode         = 0
		modeCode          = 1
		oldCatalogCode    = 2 // a zero byte follows the name
		autoIncrementCode = 3
		charsetCode       = 4
		catalogCode       = 6
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

// classify determines what a statement does. The servers log a statement as the client's bytes, in the client's
// character set. Most statements that the servers write themselves (DROP TABLE) are in that character set, too. But
// CREATE TABLE … SELECT, CREATE TABLE … LIKE and LOAD DATA are logged in UTF-8. So if a statement has no effect when
// read in the client's character set, and is valid UTF-8, it is read a second time, as UTF-8.
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
