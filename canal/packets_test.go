package canal

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// packed returns the packets in which a server sends the texts. The first packet has the number 1.
func packed(texts ...[]byte) []byte {
	var b []byte
	sequence := byte(1)
	for _, text := range texts {
		for {
			n := min(len(text), largestPacket)
			b = append(append(b, byte(n), byte(n>>8), byte(n>>16), sequence), text[:n]...)
			sequence++
			text = text[n:]
			if n < largestPacket {
				break
			}
		}
	}
	return b
}

func TestPacketsOfEverySizeAreRead(t *testing.T) {
	sizes := []int{0, 1, 300, large - packetHead - 1, large - packetHead, large - packetHead + 1, large, 3 * large,
		largestPacket - 1, largestPacket, largestPacket + 1, 2 * largestPacket, 5}
	var texts [][]byte
	for i, n := range sizes {
		texts = append(texts, bytes.Repeat([]byte{byte('a' + i)}, n))
	}
	stream := packed(texts...)
	for _, one := range []struct {
		name string
		in   io.Reader
	}{
		{"at once", bytes.NewReader(stream)},
		{"in halves", iotest.HalfReader(bytes.NewReader(stream))},
	} {
		t.Run(one.name, func(t *testing.T) {
			in := newPackets(one.in)
			for i, want := range texts {
				got, err := in.next()
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("packet %d: %d bytes, %v; want %d", i, len(got), err, len(want))
				}
			}
			if _, err := in.next(); err != io.EOF {
				t.Fatalf("the end: %v", err)
			}
		})
	}
}

func TestALargePacketKeepsItsMemory(t *testing.T) {
	first, second := bytes.Repeat([]byte("1"), large), bytes.Repeat([]byte("2"), large)
	in := newPackets(bytes.NewReader(packed(first, second)))
	got, err := in.next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.next(); err != nil || !bytes.Equal(got, first) {
		t.Fatalf("it was written to (%v)", err)
	}
}

func TestDamagedPacketsAreErrors(t *testing.T) {
	whole := packed(bytes.Repeat([]byte("x"), 2*large), []byte("y"))
	skipped := slices.Clone(whole)
	skipped[len(skipped)-2]++
	for _, one := range []struct {
		name   string
		stream []byte
		good   int // packets before the error
		cut    bool
	}{
		{"cut within a head", whole[:2], 0, true},
		{"cut behind a head", whole[:packetHead], 0, true},
		{"cut within a large packet", whole[:large], 0, true},
		{"cut within a small one", whole[:len(whole)-1], 1, true},
		{"another number", skipped, 1, false},
	} {
		t.Run(one.name, func(t *testing.T) {
			in := newPackets(bytes.NewReader(one.stream))
			n := 0
			_, err := in.next()
			for ; err == nil; n++ {
				_, err = in.next()
			}
			if n != one.good || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) != one.cut {
				t.Fatalf("%d packets, then %v", n, err)
			}
		})
	}
}

func FuzzPackets(f *testing.F) {
	f.Add(packed([]byte("a"), nil, []byte("bc")))
	f.Add([]byte{0xff, 0xff, 0xff, 1, 2})
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := newPackets(bytes.NewReader(stream))
		read := 0
		for {
			packet, err := in.next()
			if err != nil {
				return
			}
			if read += packetHead + len(packet); read > len(stream) {
				t.Fatalf("%d bytes were read of %d", read, len(stream))
			}
		}
	})
}
