package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MySQL before 5.6, MariaDB before 10.1, and MariaDB with mysql56_temporal_format=OFF store times in an older format,
// which a column keeps until its table is rebuilt. On MariaDB, a value's length depends on the number of fractional
// digits. Table maps lack that number; information_schema shows it: "datetime(6) /* mariadb-5.3 */".

// hiresWidths has the lengths in bytes of times in MariaDB's older format, by the number of fractional digits, as
// measured on MariaDB 10.11 and 11.8.
var hiresWidths = map[Kind][7]int{
	KindTimeOld:      {3, 4, 4, 5, 5, 5, 6},
	KindDatetimeOld:  {8, 6, 6, 7, 7, 7, 8},
	KindTimestampOld: {4, 5, 5, 6, 6, 7, 7},
}

// IsOldTime reports whether the column is a time in the older format, whose length the binlog doesn't tell.
func (c *Column) IsOldTime() bool {
	return c.Kind == KindTimeOld || c.Kind == KindDatetimeOld || c.Kind == KindTimestampOld
}

// measureOld sets the number of fractional digits of a time in the older format. The number is 0 if the column is gone
// (declared is nil), or is not declared as a time with fractional digits.
func (c *Column) measureOld(declared *Declared) error {
	switch {
	case !c.IsOldTime() || declared == nil || declared.Rounded || declared.Digits == 0:
		return nil
	case !declared.Hires:
		return fmt.Errorf("column %s: %w", c.Name, ErrOldTime)
	}
	c.fraction, c.Width = declared.Digits, hiresWidths[c.Kind][declared.Digits]
	return nil
}

// ErrOldTime means that a row has a time in MariaDB's older format, and that the table was altered after the row was
// written. So the number of fractional digits is unknown.
var ErrOldTime = errors.New("the row's value is in MariaDB's 5.3 format (mysql56_temporal_format=OFF). Its number of " +
	"fractional digits is unknown: the binlog doesn't tell it, and the table was altered after the row was written")

// hiresClock decodes a time in MariaDB's older format, with fractional digits. DATETIME and TIME are one number in
// units of the last digit, and a TIME is counted from -839 hours. TIMESTAMP has its seconds first, then its fraction.
func (c *Column) hiresClock(data []byte) Clock {
	unit := 1 // microseconds per unit of the last digit
	for range 6 - c.fraction {
		unit *= 10
	}
	if c.Kind == KindTimestampOld {
		return utc(int64(binary.BigEndian.Uint32(data)), int(BigEndian(data[4:]))*unit)
	}
	n := int64(BigEndian(data)) * int64(unit)
	if c.Kind == KindTimeOld {
		n -= 839 * 3600 * 1e6
	}
	t := Clock{negative: n < 0}
	n = max(n, -n)
	rest := func(size int64) int {
		part := n % size
		n /= size
		return int(part)
	}
	t.micro, t.second, t.minute = rest(1e6), rest(60), rest(60)
	if c.Kind == KindTimeOld {
		t.hour = int(n)
		return t
	}
	t.hour, t.day, t.month = rest(24), rest(32), rest(13) // a year counts as 13 months, a month as 32 days
	t.year = int(n)
	return t
}

func (t Clock) possible() bool {
	return t.year <= 9999 && t.month <= 12 && t.day <= 31 && t.hour <= 23 && t.minute <= 59 && t.second <= 59
}
