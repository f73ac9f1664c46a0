package canal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"replicator/canal/binlog"
)

// packets reads MySQL's packets of a binlog: each holds one event, or a part of one of 16 MiB and more.
//
// go-mysql's syncer copies each packet twice and makes five objects of it. Here an event stays in the read buffer: see
// docs/adr/0017.
type packets struct {
	in       *bufio.Reader // its size is large
	sequence uint8         // of the next packet
	used     int           // bytes at the buffer's beginning that held the last packet
}

const (
	packetHead    = 4 // length, sequence
	largestPacket = 1<<24 - 1
)

// newPackets reads the answer to a command, whose own packet has the number 0.
func newPackets(in io.Reader) *packets {
	return &packets{in: bufio.NewReaderSize(in, large), sequence: 1}
}

// next returns the contents of the next packet. It joins the packets of a larger event. A large event has memory of its
// own; the next call reuses the memory of others.
func (p *packets) next() ([]byte, error) {
	_, _ = p.in.Discard(p.used) // it is in the buffer
	p.used = 0
	n, err := p.head()
	if err != nil {
		return nil, err
	}
	if packetHead+n <= p.in.Size() {
		packet, err := p.peek(packetHead + n)
		if err != nil {
			return nil, err
		}
		p.used = len(packet)
		return packet[packetHead:], nil
	}
	packet, err := p.room(n)
	for last := n; ; last, err = p.head() {
		if err != nil {
			return nil, err
		}
		_, _ = p.in.Discard(packetHead)
		from := len(packet)
		packet = slices.Grow(packet, last)[:from+last]
		if _, err := io.ReadFull(p.in, packet[from:]); err != nil {
			return nil, cut(err)
		}
		if last < largestPacket {
			return packet, nil
		}
	}
}

// room is memory for a packet of n bytes, and for the rest of its event. Growing it gradually would take twice the
// memory for a huge event.
func (p *packets) room(n int) ([]byte, error) {
	if n < largestPacket {
		return make([]byte, 0, n), nil
	}
	begin, err := p.peek(packetHead + 1 + binlog.HeaderSize)
	if err != nil {
		return nil, err
	}
	h, err := binlog.ParseHeader(begin[packetHead+1:])
	if err != nil {
		return nil, err
	}
	return make([]byte, 0, 1+min(int(h.Size), 1<<30)), nil // no row is larger, and unused memory costs nothing
}

// head reads a packet's header, and returns the packet's length.
func (p *packets) head() (n int, err error) {
	head, err := p.peek(packetHead)
	if err != nil {
		return 0, err
	}
	if head[3] != p.sequence {
		return 0, fmt.Errorf("packet %d of the binlog follows where %d should", head[3], p.sequence)
	}
	p.sequence++
	return int(head[0]) | int(head[1])<<8 | int(head[2])<<16, nil
}

func (p *packets) peek(n int) ([]byte, error) {
	b, err := p.in.Peek(n)
	if err != nil && len(b) > 0 {
		err = cut(err)
	}
	return b, err
}

// cut is the error of a connection that ended within a packet.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
