package binlog

import (
	"encoding/binary"
	"time"
)

// Clock is a date and time as the server stores it. Any field may be zero, and the date need not exist in a calendar.
type Clock struct {
	negative                                      bool
	year, month, day, hour, minute, second, micro int
}

func (c *Column) timeText(data []byte) (any, error) {
	if c.Kind == KindDatetimeOld && !c.Clock(data).possible() {
		return nil, ErrOldTime
	}
	return string(c.appendTime(nil, data)), nil
}

func (c *Column) appendTime(b, data []byte) []byte {
	t := c.Clock(data)
	switch c.Kind {
	case KindDate:
		return appendDate(b, t)
	case KindTime, KindTimeOld:
		return appendClock(b, t, c.fraction)
	}
	return appendClock(append(appendDate(b, t), ' '), t, c.fraction)
}

// Clock decodes a date or time column.
func (c *Column) Clock(data []byte) Clock {
	if c.fraction > 0 && c.IsOldTime() {
		return c.hiresClock(data)
	}
	switch c.Kind {
	case KindDate:
		n := int(LittleEndian(data))
		return Clock{year: n >> 9, month: n >> 5 & 15, day: n & 31}
	case KindTimeOld:
		n := Signed(LittleEndian(data), 3)
		t := Clock{negative: n < 0}
		if n < 0 {
			n = -n
		}
		t.hour, t.minute, t.second = int(n/10000), int(n/100%100), int(n%100)
		return t
	case KindDatetimeOld:
		n := binary.LittleEndian.Uint64(data)
		d, s := int(n/1000000), int(n%1000000)
		return Clock{year: d / 10000, month: d / 100 % 100, day: d % 100, hour: s / 10000,
			minute: s / 100 % 100, second: s % 100}
	case KindTimestampOld:
		return utc(int64(binary.LittleEndian.Uint32(data)), 0)
	case KindTimestamp:
		return utc(int64(binary.BigEndian.Uint32(data)), fraction(data[4:]))
	case KindDatetime:
		// The bits are a sign, 17 of year*13+month, 5 of day, 5 of hour, 6 of minute, 6 of second.
		return datetime(int64(BigEndian(data[:5]))-1<<39, fraction(data[5:]))
	}
	return timeOfDay(data)
}

// datetime splits a packed date and time. The binlog and binary JSON use the same packing.
func datetime(n int64, micro int) Clock {
	ymd, hms := n>>17, n&(1<<17-1)
	ym := ymd >> 5
	return Clock{
		year: int(ym / 13), month: int(ym % 13), day: int(ymd & 31),
		hour: int(hms >> 12), minute: int(hms >> 6 & 63), second: int(hms & 63), micro: micro,
	}
}

// timeOfDay decodes a TIME. Its bits are a sign, one unused, 10 of hour, 6 of minute, 6 of second, then the fraction. A
// negative TIME is stored as the complement of the whole number, so that the bytes sort.
func timeOfDay(data []byte) Clock {
	bits := 8 * len(data)
	n := int64(BigEndian(data)) - 1<<(bits-1)
	t := Clock{negative: n < 0}
	if n < 0 {
		n = -n
	}
	fracBits := bits - 24
	hms := n >> fracBits
	t.hour, t.minute, t.second = int(hms>>12&1023), int(hms>>6&63), int(hms&63)
	t.micro = int(n&(1<<fracBits-1)) * fractionUnit(fracBits/8)
	return t
}

func fraction(data []byte) int { return int(BigEndian(data)) * fractionUnit(len(data)) }

// fractionUnit returns how many microseconds one unit of a fraction with n bytes is: 1 byte has hundredths of a second,
// 2 bytes ten thousandths, 3 bytes millionths.
func fractionUnit(n int) int {
	switch n {
	case 1:
		return 10000
	case 2:
		return 100
	}
	return 1
}

// utc returns the date and time of a TIMESTAMP. Second 0 without a fraction is the zero date. MariaDB accepts second 0
// with a fraction as a time.
func utc(seconds int64, micro int) Clock {
	if seconds == 0 && micro == 0 {
		return Clock{}
	}
	t := time.Unix(seconds, 0).UTC()
	return Clock{year: t.Year(), month: int(t.Month()), day: t.Day(), hour: t.Hour(), minute: t.Minute(),
		second: t.Second(), micro: micro}
}

func appendDate(b []byte, t Clock) []byte {
	b = appendDigits(b, t.year, 4)
	b = appendDigits(append(b, '-'), t.month, 2)
	return appendDigits(append(b, '-'), t.day, 2)
}

func appendClock(b []byte, t Clock, fraction int) []byte {
	if t.negative {
		b = append(b, '-')
	}
	b = appendDigits(b, t.hour, 2)
	b = appendDigits(append(b, ':'), t.minute, 2)
	b = appendDigits(append(b, ':'), t.second, 2)
	if fraction == 0 {
		return b
	}
	b = appendDigits(append(b, '.'), t.micro, 6)
	return b[:len(b)-max(6-fraction, 0)]
}

func appendDigits(b []byte, n, width int) []byte {
	var digits [20]byte
	i := len(digits)
	for n > 0 || width > 0 {
		i--
		digits[i] = byte('0' + n%10)
		n /= 10
		width--
	}
	return append(b, digits[i:]...)
}

// Micros returns microseconds since 1970, as if t were in UTC, to be used as a row's version. ok is false for zero
// dates and for times before 1970.
func (t Clock) Micros() (n int64, ok bool) {
	if t.month == 0 || t.day == 0 {
		return 0, false
	}
	n = time.Date(t.year, time.Month(t.month), t.day, t.hour, t.minute, t.second, 0, time.UTC).Unix()*1e6 + int64(t.micro)
	return n, n >= 0
}

// ParseDatetime reads the server's text of a DATE, DATETIME or TIMESTAMP.
func ParseDatetime(s string) (t Clock, ok bool) {
	number := func(from, to int) int {
		n := 0
		for i := from; i < to; i++ {
			if i >= len(s) || s[i] < '0' || s[i] > '9' {
				ok = false
				return 0
			}
			n = n*10 + int(s[i]-'0')
		}
		return n
	}
	ok = true
	if len(s) != 10 && len(s) != 19 && (len(s) < 21 || len(s) > 26) {
		return t, false
	}
	t.year, t.month, t.day = number(0, 4), number(5, 7), number(8, 10)
	if len(s) > 10 {
		t.hour, t.minute, t.second = number(11, 13), number(14, 16), number(17, 19)
	}
	if len(s) > 20 {
		t.micro = number(20, len(s))
		for range 26 - len(s) {
			t.micro *= 10
		}
	}
	return t, ok
}
