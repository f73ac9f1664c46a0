package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Columns that were made before MariaDB 10.1 or MySQL 5.6, or on MariaDB with mysql56_temporal_format=OFF, have times
// in an older format, until their table is rebuilt. Table maps say nothing of them but the type. On MySQL such times
// have no fractional digits. On MariaDB they may have, and their number decides how long values are and what they mean:
// information_schema alone tells it, in "datetime(6) /* mariadb-5.3 */".

// hiresWidths are how many bytes a value has, by its fractional digits: measured on MariaDB 10.11 and 11.8.
var hiresWidths = map[Kind][7]int{
	KindTimeOld:      {3, 4, 4, 5, 5, 5, 6},
	KindDatetimeOld:  {8, 6, 6, 7, 7, 7, 8},
	KindTimestampOld: {4, 5, 5, 6, 6, 7, 7},
}

// IsOldTime reports whether the column is a time in the older format, whose length the binlog doesn't tell.
func (c *Column) IsOldTime() bool {
	return c.Kind == KindTimeOld || c.Kind == KindDatetimeOld || c.Kind == KindTimestampOld
}

// measureOld fills in the digits of a time in the older format. One that is declared to have none, or not at all any
// more, is taken to have had none.
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

// ErrOldTime: the table is no longer what rows were written to that have a time in the older format.
var ErrOldTime = errors.New("the row has it in MariaDB's format of 5.3 (mysql56_temporal_format=OFF), whose length " +
	"depends on the fractional digits; the binlog doesn't tell them, and the table was altered since")

// hiresClock decodes a time in the older format that has fractional digits. DATETIME and TIME are one number that
// counts in the last of them, TIME from -839 hours on; TIMESTAMP has them behind the seconds.
func (c *Column) hiresClock(data []byte) Clock {
	unit := 1 // of the last digit, in microseconds
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

// possible reports whether the server would store such a date.
func (t Clock) possible() bool {
	return t.year <= 9999 && t.month <= 12 && t.day <= 31 && t.hour <= 23 && t.minute <= 59 && t.second <= 59
}
