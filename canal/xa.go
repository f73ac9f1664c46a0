package canal

import (
	"fmt"
	"log/slog"
	"strings"

	"replicator/canal/binlog"
)

// prepared are the XA transactions that were prepared since reading began, and not yet ended, by name as XA COMMIT
// shows it. None of them has rows of a watched table: those end reading.
//
// XA COMMIT names no tables. One that was prepared before reading began may have changed any, and where a view was
// filled in between, its scan could not see those rows. Reading back for it would be reading all of the log, and to
// stop would stop every view at every start beside an application that uses XA elsewhere: it is said.
type prepared struct {
	names map[string]struct{}
	log   *slog.Logger
}

// prepare notes the transaction of an XA_PREPARE event. One that was committed in one phase has ended.
func (p *prepared) prepare(body []byte) error {
	c := binlog.Cursor{B: body}
	onePhase := c.Uint8() != 0
	format := int32(c.Uint(4))
	global, branch := int(c.Uint(4)), int(c.Uint(4))
	name := fmt.Sprintf("X'%x',X'%x',%d", c.Take(global), c.Take(branch), format)
	if err := c.Err("XA transaction"); err != nil || onePhase {
		return err
	}
	if p.names == nil {
		p.names = map[string]struct{}{}
	}
	p.names[strings.ToUpper(name)] = struct{}{}
	return nil
}

// end notes XA COMMIT or XA ROLLBACK, and warns of the commit of a transaction that it doesn't know.
func (p *prepared) end(text []byte, at string) {
	words := strings.Fields(strings.ToUpper(string(text)))
	if len(words) < 3 {
		return
	}
	name := strings.Join(words[2:], "")
	_, known := p.names[name]
	delete(p.names, name)
	if known || words[1] != "COMMIT" {
		return
	}
	p.log.Warn("an XA transaction was committed that was prepared before reading began: if it changed watched tables, their views lack "+
		"that; verify --repair puts them right", slog.String("position", at))
}
