package wire

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestWhatWasAppendedIsRead(t *testing.T) {
	b := binary.AppendUvarint(nil, math.MaxUint64)
	b = AppendText(b, "text")
	b = AppendText(b, "")
	b = binary.BigEndian.AppendUint64(b, 1<<63+5)
	b = append(b, 'k')
	b = binary.AppendUvarint(b, 2)
	b = append(b, "ab"...)
	r := NewReader(string(b))
	if v := r.Uvarint(); v != math.MaxUint64 {
		t.Errorf("number: %d", v)
	}
	if s := r.Text(); s != "text" {
		t.Errorf("text: %q", s)
	}
	if s := r.Text(); s != "" {
		t.Errorf("empty text: %q", s)
	}
	if v := r.Uint64(); v != 1<<63+5 {
		t.Errorf("8 bytes: %d", v)
	}
	if c := r.Byte(); c != 'k' {
		t.Errorf("byte: %q", c)
	}
	if n := r.Count(); n != 2 || r.Rest() != "ab" {
		t.Errorf("count: %d, rest %q", n, r.Rest())
	}
	if r.Bytes(2); r.More() || r.Bad() {
		t.Errorf("more %v, bad %v", r.More(), r.Bad())
	}
}

func TestDamagedInputMakesAReaderBad(t *testing.T) {
	tests := map[string]struct {
		input string
		read  func(*Reader)
	}{
		"number cut short":         {"\x80", func(r *Reader) { r.Uvarint() }},
		"number too large":         {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", func(r *Reader) { r.Uvarint() }},
		"number not shortest":      {"\x80\x00", func(r *Reader) { r.Uvarint() }},
		"text cut short":           {"\x05abc", func(r *Reader) { r.Text() }},
		"more things than bytes":   {"\x05abc", func(r *Reader) { r.Count() }},
		"a byte where nothing is":  {"", func(r *Reader) { r.Byte() }},
		"8 bytes where 7 are":      {"1234567", func(r *Reader) { r.Uint64() }},
		"a length beyond anything": {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", func(r *Reader) { r.Text() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := NewReader(test.input)
			test.read(&r)
			if !r.Bad() || r.More() {
				t.Errorf("bad %v, more %v", r.Bad(), r.More())
			}
			if r.Uvarint() != 0 || r.Text() != "" || r.Byte() != 0 || r.Uint64() != 0 || r.Count() != 0 {
				t.Error("a bad reader gives something")
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add("\x03abc\x01\x02", uint(4))
	f.Fuzz(func(t *testing.T, s string, steps uint) {
		r := NewReader(s)
		for i := range min(steps, 100) {
			left := len(r.Rest())
			switch i % 5 {
			case 0:
				r.Text()
			case 1:
				r.Count()
			case 2:
				r.Byte()
			case 3:
				r.Uint64()
			case 4:
				r.Uvarint()
			}
			if len(r.Rest()) > left || r.Bad() && r.More() {
				t.Fatal("it reads backwards, or on when it is bad")
			}
		}
	})
}
