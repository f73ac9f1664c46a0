package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"
)

// ErrShort means that an event ends before the data that its own length fields announce.
var ErrShort = errors.New("cut short")

const (
	HeaderSize   = replication.EventHeaderSize
	ChecksumSize = replication.BinlogChecksumLength
)

// Event types, flags and other numbers of binlog events. go-mysql has no names for most of them.
const (
	MariaWriteRowsCompressed   replication.EventType = 169 // version 2 events of MariaDB's compressed rows
	MariaUpdateRowsCompressed  replication.EventType = 170
	MariaDeleteRowsCompressed  replication.EventType = 171
	MariaXAPreparedFlag        byte                  = 64
	MariaStandaloneFlag        byte                  = replication.BINLOG_MARIADB_FL_STANDALONE
	IgnorableFlag              uint16                = replication.LOG_EVENT_IGNORABLE_F
	ArtificialFlag             uint16                = replication.LOG_EVENT_ARTIFICIAL_F
	NoTable                    uint64                = 0xffffff // table id of a rows event that only ends a statement
	ExecuteLoadExtra                                 = 4 + 4 + 4 + 1
	ImmediateTimestampExtended                       = 1 << 55
)

// IsHeartbeat reports whether an event is a heartbeat: the server has nothing to send.
func IsHeartbeat(kind replication.EventType) bool {
	return kind == replication.HEARTBEAT_EVENT || kind == replication.HEARTBEAT_LOG_EVENT_V2
}

// KindOf returns the type of an event. raw has at least the whole header.
func KindOf(raw []byte) replication.EventType { return replication.EventType(raw[4]) }

type Header struct {
	Time   uint32
	Kind   replication.EventType
	Server uint32
	Size   uint32
	LogPos uint32 // where the event ends in its file, modulo 4 GiB; 0 inside transactions since MariaDB 11.4
	Flags  uint16
}

// ParseHeader parses the header of an event, at the beginning of raw.
func ParseHeader(raw []byte) (Header, error) {
	if len(raw) < HeaderSize {
		return Header{}, fmt.Errorf("event header: %w", ErrShort)
	}
	h := Header{
		Time:   binary.LittleEndian.Uint32(raw),
		Kind:   KindOf(raw),
		Server: binary.LittleEndian.Uint32(raw[5:]),
		Size:   binary.LittleEndian.Uint32(raw[9:]),
		LogPos: binary.LittleEndian.Uint32(raw[13:]),
		Flags:  binary.LittleEndian.Uint16(raw[17:]),
	}
	if h.Size < HeaderSize {
		return Header{}, fmt.Errorf("event header: invalid size %d", h.Size)
	}
	return h, nil
}

// Cursor reads an event's bytes. After a read past the end, Bad is set and all reads return zeros, so a decoder needs
// only one check at the end.
type Cursor struct {
	B   []byte
	Off int
	Bad bool
}

// Take reads n bytes, which share the event's memory; nil if fewer than n are left.
func (c *Cursor) Take(n int) []byte {
	if c.Bad || n < 0 || n > len(c.B)-c.Off {
		c.Bad = true
		return nil
	}
	part := c.B[c.Off : c.Off+n : c.Off+n]
	c.Off += n
	return part
}

// Rest returns all remaining bytes.
func (c *Cursor) Rest() []byte {
	if c.Bad {
		return nil
	}
	return c.Take(len(c.B) - c.Off)
}

// Left is how many bytes are left.
func (c *Cursor) Left() int {
	if c.Bad {
		return 0
	}
	return len(c.B) - c.Off
}

// Uint8 reads one byte.
func (c *Cursor) Uint8() byte {
	if p := c.Take(1); p != nil {
		return p[0]
	}
	return 0
}

// Uint reads n ≤ 8 bytes, little endian.
func (c *Cursor) Uint(n int) uint64 { return LittleEndian(c.Take(n)) }

// Packed reads MySQL's length-encoded integer.
func (c *Cursor) Packed() uint64 {
	switch first := c.Uint8(); first {
	case 0xfb, 0xff: // in the protocol these mean NULL and an error, but not in binlogs
		c.Bad = true
		return 0
	case 0xfc:
		return c.Uint(2)
	case 0xfd:
		return c.Uint(3)
	case 0xfe:
		return c.Uint(8)
	default:
		return uint64(first)
	}
}

// PackedBytes reads bytes preceded by their length-encoded length.
func (c *Cursor) PackedBytes() []byte {
	n := c.Packed()
	if n > uint64(c.Left()) {
		c.Bad = true
		return nil
	}
	return c.Take(int(n))
}

// Err returns ErrShort if the cursor is bad; otherwise nil. what names the part of the event.
func (c *Cursor) Err(what string) error {
	if c.Bad {
		return fmt.Errorf("%s: %w", what, ErrShort)
	}
	return nil
}

// LittleEndian reads a number of at most 8 bytes, the lowest first.
func LittleEndian(b []byte) uint64 {
	var n uint64
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// BigEndian reads a number of at most 8 bytes, the highest first.
func BigEndian(b []byte) uint64 {
	var n uint64
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}
