package canal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"
)

// errShort: an event, or a part of it, ends before what its lengths say.
var errShort = errors.New("cut short")

const (
	headerSize   = replication.EventHeaderSize
	checksumSize = replication.BinlogChecksumLength
)

// Event types that go-mysql has no names for.
const (
	mariaWriteRowsCompressed   replication.EventType = 169 // version 2 events of MariaDB's compressed rows
	mariaUpdateRowsCompressed  replication.EventType = 170
	mariaDeleteRowsCompressed  replication.EventType = 171
	mariaXAPreparedFlag        byte                  = 64
	mariaStandaloneFlag        byte                  = replication.BINLOG_MARIADB_FL_STANDALONE
	ignorableFlag              uint16                = replication.LOG_EVENT_IGNORABLE_F
	artificialFlag             uint16                = replication.LOG_EVENT_ARTIFICIAL_F
	noTable                    uint64                = 0xffffff // a rows event that only ends a statement
	executeLoadExtra                                 = 4 + 4 + 4 + 1
	immediateTimestampExtended                       = 1 << 55
)

// isHeartbeat: the server has nothing to send.
func isHeartbeat(kind replication.EventType) bool {
	return kind == replication.HEARTBEAT_EVENT || kind == replication.HEARTBEAT_LOG_EVENT_V2
}

// header is an event's header.
type header struct {
	time   uint32
	kind   replication.EventType
	server uint32
	size   uint32
	logPos uint32 // where it ends in its file, modulo 4 GiB; 0 inside transactions on MariaDB ≥ 11.4
	flags  uint16
}

func parseHeader(raw []byte) (header, error) {
	if len(raw) < headerSize {
		return header{}, fmt.Errorf("event header: %w", errShort)
	}
	h := header{
		time:   binary.LittleEndian.Uint32(raw),
		kind:   replication.EventType(raw[4]),
		server: binary.LittleEndian.Uint32(raw[5:]),
		size:   binary.LittleEndian.Uint32(raw[9:]),
		logPos: binary.LittleEndian.Uint32(raw[13:]),
		flags:  binary.LittleEndian.Uint16(raw[17:]),
	}
	if h.size < headerSize {
		return header{}, fmt.Errorf("event header: size %d", h.size)
	}
	return h, nil
}

// cursor reads an event's bytes. After the first read past the end it is bad, and all reads give zeroes: a decoder
// checks once, when it is done.
type cursor struct {
	b   []byte
	off int
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > len(c.b)-c.off {
		c.bad = true
		return nil
	}
	part := c.b[c.off : c.off+n : c.off+n]
	c.off += n
	return part
}

// rest is everything left.
func (c *cursor) rest() []byte {
	if c.bad {
		return nil
	}
	return c.take(len(c.b) - c.off)
}

func (c *cursor) left() int {
	if c.bad {
		return 0
	}
	return len(c.b) - c.off
}

func (c *cursor) u8() byte {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

// uint reads n ≤ 8 bytes, little endian.
func (c *cursor) uint(n int) uint64 { return littleEndian(c.take(n)) }

// packed reads MySQL's length-encoded integer.
func (c *cursor) packed() uint64 {
	switch first := c.u8(); first {
	case 0xfb, 0xff: // NULL and an error: not in binlogs
		c.bad = true
		return 0
	case 0xfc:
		return c.uint(2)
	case 0xfd:
		return c.uint(3)
	case 0xfe:
		return c.uint(8)
	default:
		return uint64(first)
	}
}

// packedBytes reads bytes behind their length-encoded length.
func (c *cursor) packedBytes() []byte {
	n := c.packed()
	if n > uint64(c.left()) {
		c.bad = true
		return nil
	}
	return c.take(int(n))
}

func (c *cursor) err(what string) error {
	if c.bad {
		return fmt.Errorf("%s: %w", what, errShort)
	}
	return nil
}

func littleEndian(b []byte) uint64 {
	var n uint64
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

func bigEndian(b []byte) uint64 {
	var n uint64
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}
