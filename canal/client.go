package canal

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"replicator/canal/binlog"
)

// clientOf reads a statement's status variables: what its client's sql_mode and the collation of its
// character_set_client were; 0 where that is not told. The servers write them in an order of their own, with these near
// the beginning. What comes behind differs from server to server, and is not read.
func clientOf(vars []byte) (mode sqlMode, collation uint64) {
	const (
		flagsCode         = 0
		modeCode          = 1
		oldCatalogCode    = 2 // with a zero behind the name
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

// classify tells what a statement does. The servers log it in the bytes of its client, and most of what they write
// themselves (DROP TABLE) in the client's character set, too. But the definition that they log for CREATE TABLE …
// SELECT and … LIKE, and LOAD DATA, are UTF-8 whatever the client's is: what may be that counts as well.
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
