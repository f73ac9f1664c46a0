package canal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"replicator/canal/binlog"
)

// packets reads the MySQL packets in which the server sends its binlog. A packet holds one event, or a part of an event
// of 16 MiB and more.
//
// go-mysql's own syncer copies each packet twice and allocates five objects for it. Here an event stays in the read
// buffer: see docs/adr/0017.
type packets struct {
	in       *bufio.Reader // its buffer has room for packets of up to `large` bytes
	sequence uint8         // the expected number of the next packet
	used     int           // length of the last packet, at the beginning of the buffer
}

const (
	packetHead    = 4 // three bytes of length, one byte of sequence number
	largestPacket = 1<<24 - 1
)

// newPackets returns a reader of the server's answer to a command. The command was packet 0, so the answer begins with
// packet 1.
func newPackets(in io.Reader) *packets {
	return &packets{in: bufio.NewReaderSize(in, large), sequence: 1}
}

// next returns the contents of the next packet. If the packet is a part of a large event, next joins all of its packets
// in newly allocated memory. The memory of a small event is valid only until the next call.
func (p *packets) next() ([]byte, error) {
	_, _ = p.in.Discard(p.used) // the buffer holds the packet, so this can't fail
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

// room returns memory for a packet of n bytes and the rest of its event. Growing the memory gradually would take twice
// as much for a huge event.
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
	return make([]byte, 0, 1+min(int(h.Size), 1<<30)), nil // no event is larger than 1 GiB; untouched memory costs nothing
}

func (p *packets) head() (n int, err error) {
	head, err := p.peek(packetHead)
	if err != nil {
		return 0, err
	}
	if head[3] != p.sequence {
		return 0, fmt.Errorf("the binlog stream sent packet %d instead of packet %d", head[3], p.sequence)
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

// cut replaces EOF by ErrUnexpectedEOF, because the connection ended within a packet.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
