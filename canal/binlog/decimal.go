package binlog

import "encoding/binary"

// A DECIMAL is stored as groups of nine digits, in four bytes each. Digits left over at either end take fewer bytes
// (strings/decimal.cc, decimal2bin). The first bit is flipped; in a negative number all bits are flipped, too.

// decimalSize returns how many bytes a DECIMAL(precision, scale) takes; negative if the type is invalid.
func decimalSize(precision, scale int) int {
	whole := precision - scale
	if precision < 1 || precision > 65 || scale < 0 || whole < 0 {
		return -1
	}
	return whole/9*4 + digitBytes(whole%9) + scale/9*4 + digitBytes(scale%9)
}

func digitBytes(n int) int {
	switch {
	case n == 0:
		return 0
	case n <= 2:
		return 1
	case n <= 4:
		return 2
	case n <= 6:
		return 3
	}
	return 4
}

func appendDecimal(b, data []byte, precision, scale int) []byte {
	var copied [36]byte
	raw := copied[:copy(copied[:], data)]
	negative := raw[0]&0x80 == 0
	raw[0] ^= 0x80
	if negative {
		for i := range raw {
			raw[i] = ^raw[i]
		}
	}
	group := func(digits int) int {
		n := digitBytes(digits)
		v := int(BigEndian(raw[:n]))
		raw = raw[n:]
		return v
	}
	begin := len(b)
	if negative {
		b = append(b, '-')
	}
	first := len(b)
	whole := precision - scale
	if n := whole % 9; n > 0 {
		if v := group(n); v > 0 {
			b = appendDigits(b, v, 1)
		}
	}
	for range whole / 9 {
		v := int(binary.BigEndian.Uint32(raw))
		raw = raw[4:]
		switch {
		case len(b) > first:
			b = appendDigits(b, v, 9)
		case v > 0:
			b = appendDigits(b, v, 1)
		}
	}
	if len(b) == first {
		b = append(b, '0')
	}
	if scale > 0 {
		b = append(b, '.')
		for range scale / 9 {
			b = appendDigits(b, group(9), 9)
		}
		if n := scale % 9; n > 0 {
			b = appendDigits(b, group(n), n)
		}
	}
	if negative && isZero(b[first:]) { // no server shows -0.00
		b = append(b[:begin], b[first:]...)
	}
	return b
}

func isZero(digits []byte) bool {
	for _, d := range digits {
		if d != '0' && d != '.' {
			return false
		}
	}
	return true
}
