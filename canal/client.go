package canal

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"replicator/canal/binlog"
)

// clientOf reads a statement's status variables: its client's sql_mode, and the collation of its character_set_client;
// 0 if they are missing. The servers write the variables in a fixed order, with these near the beginning. Later
// variables differ from server to server, and are not read.
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

// classify determines what a statement does. The servers log a statement in the bytes of its client. Most of what they
// write themselves (DROP TABLE) is in the client's character set, too. But the definition that they log for CREATE
// TABLE … SELECT and … LIKE, and LOAD DATA, are always UTF-8. For a statement that may be in UTF-8, both readings
// count.
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
