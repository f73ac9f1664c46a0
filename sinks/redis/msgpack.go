package redis

import "encoding/binary"

// list is a list in MessagePack, which scripts unpack in one call. Separate arguments cost the server more: writing a
// hash of five fields and an index took 8.9 to 10.1 µs with arguments, and 5.9 to 7.9 µs with MessagePack (Redis
// 7.0).
type list struct {
	text []byte
	n    uint32
}

const listHead = 5

func (l *list) begin(in []byte) {
	l.text, l.n = append(in[:0], 0, 0, 0, 0, 0), 0
}

func (l *list) end() []byte {
	l.text[0] = 0xdd // MessagePack: a list whose length has 4 bytes
	binary.BigEndian.PutUint32(l.text[1:], l.n)
	return l.text
}

func (l *list) addNumber(n int) {
	l.n++
	if n < 0x80 {
		l.text = append(l.text, byte(n))
		return
	}
	l.text = binary.BigEndian.AppendUint32(append(l.text, 0xce), uint32(n))
}

func (l *list) addText(s string) {
	l.addHead(len(s))
	l.text = append(l.text, s...)
}

func (l *list) addBytes(s []byte) {
	l.addHead(len(s))
	l.text = append(l.text, s...)
}

// addHead adds the MessagePack header of a text, which may be binary: Lua's texts are bytes.
func (l *list) addHead(size int) {
	l.n++
	switch {
	case size < 32:
		l.text = append(l.text, 0xa0|byte(size))
	case size < 1<<8:
		l.text = append(l.text, 0xd9, byte(size))
	case size < 1<<16:
		l.text = binary.BigEndian.AppendUint16(append(l.text, 0xda), uint16(size))
	default:
		l.text = binary.BigEndian.AppendUint32(append(l.text, 0xdb), uint32(size))
	}
}

func (l *list) addAll(other *list) {
	l.n += other.n
	l.text = append(l.text, other.text[listHead:]...)
}
