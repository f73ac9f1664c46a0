package binlog

import "testing"

// TestTheFirstSecondOf1970IsNotTheZeroDate: MariaDB accepts 1970-01-01 00:00:00.5 as a TIMESTAMP. Only the second
// without a fraction is the zero date.
func TestTheFirstSecondOf1970IsNotTheZeroDate(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		fraction int
		data     string
		text     string
		micros   int64 // as a version; -1: it is not a version
	}{
		{KindTimestamp, 0, "\x00\x00\x00\x00", "0000-00-00 00:00:00", -1},
		{KindTimestamp, 0, "\x00\x00\x00\x01", "1970-01-01 00:00:01", 1_000_000},
		{KindTimestamp, 6, "\x00\x00\x00\x00\x00\x00\x00", "0000-00-00 00:00:00.000000", -1},
		{KindTimestamp, 6, "\x00\x00\x00\x00\x00\x00\x01", "1970-01-01 00:00:00.000001", 1},
		{KindTimestamp, 1, "\x00\x00\x00\x00\x32", "1970-01-01 00:00:00.5", 500_000},
		{KindTimestampOld, 0, "\x00\x00\x00\x00", "0000-00-00 00:00:00", -1},
		{KindTimestampOld, 6, "\x00\x00\x00\x00\x00\x00\x00", "0000-00-00 00:00:00.000000", -1},
		{KindTimestampOld, 3, "\x00\x00\x00\x00\x01\xf4", "1970-01-01 00:00:00.500", 500_000},
	} {
		column := &Column{Kind: c.kind, fraction: c.fraction}
		text, err := column.timeText([]byte(c.data))
		if err != nil || text != c.text {
			t.Errorf("kind %v(%d) of %x is %v (%v), want %s", c.kind, c.fraction, c.data, text, err, c.text)
		}
		n, ok := column.Clock([]byte(c.data)).Micros()
		if ok != (c.micros >= 0) || ok && n != c.micros {
			t.Errorf("%s is the version %d, %v, want %d", c.text, n, ok, c.micros)
		}
		parsed, _ := ParseDatetime(c.text)
		if again, same := parsed.Micros(); again != n || same != ok {
			t.Errorf("the text %s is the version %d, %v; in the binlog it is %d, %v", c.text, again, same, n, ok)
		}
	}
}
