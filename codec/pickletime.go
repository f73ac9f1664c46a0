package codec

import (
	"fmt"
	"math/big"
	"strings"
	"time"
	_ "time/tzdata" // the results must not depend on the machine's time zone database

	"replicator"
)

// Python's datetime, date and time keep their fields in a few bytes (data in datetimemodule.c). They become the text of
// isoformat(). A timedelta becomes its number of seconds.

// fields returns the bytes that hold the fields of a datetime, date or time. It returns false if there are not exactly
// size bytes. Python 3 writes the bytes as text if it loaded the object from a Python 2 pickle.
func (o *pyObject) fields(size int) ([]byte, bool) {
	if len(o.arguments) == 0 {
		return nil, false
	}
	switch v := o.arguments[0].(type) {
	case pyBytes:
		return []byte(v), len(v) == size
	case string:
		raw, ok := latin1(v)
		return []byte(raw), ok && len(raw) == size
	}
	return nil, false
}

func (o *pyObject) zone() any {
	if len(o.arguments) < 2 {
		return nil
	}
	return o.arguments[1]
}

// foldBit is set for the second of two equal clock times, after a clock was set back. It is the top bit of another
// field: of the month, or of the hour in a time without a date.
const foldBit = 0x80

func (o *pyObject) datetime() any {
	b, ok := o.fields(10)
	if !ok {
		return nil
	}
	day, ok := dateOf(int(b[0])<<8|int(b[1]), b[2]&^foldBit, b[3])
	clock, valid := clockOf(b[4], b[5], b[6], b[7:10])
	if !ok || !valid {
		return nil
	}
	wall := day.Add(time.Duration(b[4])*time.Hour + time.Duration(b[5])*time.Minute + time.Duration(b[6])*time.Second)
	offset, err := offsetOf(o.zone(), &wall, b[2]&foldBit != 0)
	if err != "" {
		return err
	}
	return day.Format(time.DateOnly) + "T" + clock + offset
}

func (o *pyObject) date() any {
	b, ok := o.fields(4)
	if !ok {
		return nil
	}
	day, ok := dateOf(int(b[0])<<8|int(b[1]), b[2], b[3])
	if !ok {
		return nil
	}
	return day.Format(time.DateOnly)
}

// clock converts a datetime.time. Without a date, the offset of a zone with daylight saving time is unknown, and
// Python's isoformat() shows none.
func (o *pyObject) clock() any {
	b, ok := o.fields(6)
	if !ok {
		return nil
	}
	clock, ok := clockOf(b[0]&^foldBit, b[1], b[2], b[3:6])
	if !ok {
		return nil
	}
	offset, err := offsetOf(o.zone(), nil, false)
	if err != "" {
		return err
	}
	return clock + offset
}

func dateOf(year int, month, day byte) (time.Time, bool) {
	t := time.Date(year, time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	return t, t.Year() == year && t.Month() == time.Month(month) && t.Day() == int(day) && year >= 1 && year <= 9999
}

func clockOf(hour, minute, second byte, micros []byte) (string, bool) {
	n := int(micros[0])<<16 | int(micros[1])<<8 | int(micros[2])
	text := fmt.Sprintf("%02d:%02d:%02d", hour, minute, second)
	if n > 0 {
		text += fmt.Sprintf(".%06d", n)
	}
	return text, hour < 24 && minute < 60 && second < 60 && n < 1e6
}

// timedelta returns the exact number of seconds, from days, seconds and microseconds.
func (o *pyObject) timedelta() any {
	micros, ok := o.micros()
	if !ok {
		return nil
	}
	seconds, rest := new(big.Int).QuoRem(micros, big.NewInt(1e6), new(big.Int))
	if rest.Sign() == 0 {
		return bigInteger(seconds)
	}
	sign := ""
	if micros.Sign() < 0 {
		sign = "-"
	}
	text := fmt.Sprintf("%s%d.%06d", sign, seconds.Abs(seconds), rest.Abs(rest))
	return replicator.Number(strings.TrimRight(text, "0"))
}

func (o *pyObject) micros() (*big.Int, bool) {
	if o.class != "datetime.timedelta" || len(o.arguments) != 3 {
		return nil, false
	}
	sum := new(big.Int)
	for i, unit := range []int64{86400, 1, 1} {
		n, ok := o.arguments[i].(int64)
		if !ok {
			return nil, false
		}
		if i < 2 {
			unit *= 1e6
		}
		sum.Add(sum, new(big.Int).Mul(big.NewInt(n), big.NewInt(unit)))
	}
	return sum, true
}

// offsetOf returns the UTC offset of a Python tzinfo at a clock time, as isoformat() shows it; "" if isoformat() shows
// none.
func offsetOf(zone any, wall *time.Time, fold bool) (string, replicator.Unread) {
	if zone == nil {
		return "", ""
	}
	o, ok := zone.(*pyObject)
	if class, isClass := zone.(pyClass); isClass {
		o, ok = &pyObject{class: string(class)}, true
	}
	if !ok {
		return "", "a time in an invalid time zone"
	}
	unknown := replicator.Unread(fmt.Sprintf("a time in a time zone of the Python class %.60q", o.class))
	argument := func(i int) any {
		if i < len(o.arguments) {
			return o.arguments[i]
		}
		return nil
	}
	switch o.class {
	case "datetime.timezone":
		if delta, ok := argument(0).(*pyObject); ok {
			if micros, ok := delta.micros(); ok && micros.IsInt64() {
				return showOffset(time.Duration(micros.Int64()) * time.Microsecond), ""
			}
		}
	case "datetime.timezone.utc", "pytz._UTC", "pytz.utc":
		return showOffset(0), ""
	case "pytz.FixedOffset":
		if minutes, ok := argument(0).(int64); ok {
			return showOffset(time.Duration(minutes) * time.Minute), ""
		}
	case "pytz._p": // arguments: the zone's name, then its UTC offset at that time in seconds
		if seconds, ok := argument(1).(int64); ok {
			return showOffset(time.Duration(seconds) * time.Second), ""
		}
		return zoneOffset(argument(0), wall, fold, unknown)
	case "zoneinfo.ZoneInfo", "zoneinfo.ZoneInfo._unpickle", "backports.zoneinfo.ZoneInfo._unpickle":
		return zoneOffset(argument(0), wall, fold, unknown)
	}
	return "", unknown
}

// zoneOffset returns the UTC offset of a zone in the time zone database at a clock time. After a clock is set back,
// some times occur twice: fold means the second one. For times that a clock skips, fold selects the offset from after
// the change (PEP 495).
func zoneOffset(key any, wall *time.Time, fold bool, unknown replicator.Unread) (string, replicator.Unread) {
	name, ok := textOf(key)
	if !ok || name == "" || name == "Local" {
		return "", unknown
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return "", unknown
	}
	at := func(t time.Time) time.Duration {
		_, seconds := t.In(location).Zone()
		return time.Duration(seconds) * time.Second
	}
	if wall == nil {
		if location.String() == "UTC" {
			return showOffset(0), ""
		}
		return "", ""
	}
	before, after := at(wall.Add(-24*time.Hour)), at(wall.Add(24*time.Hour))
	isBefore, isAfter := at(wall.Add(-before)) == before, at(wall.Add(-after)) == after
	switch {
	case isBefore && !isAfter:
		return showOffset(before), ""
	case isAfter && !isBefore, fold:
		return showOffset(after), ""
	}
	return showOffset(before), ""
}

func showOffset(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	text := fmt.Sprintf("%s%02d:%02d", sign, int(d.Hours()), int(d.Minutes())%60)
	if seconds := d % time.Minute; seconds != 0 {
		text += fmt.Sprintf(":%02d", int(seconds.Seconds()))
		if micros := seconds % time.Second / time.Microsecond; micros != 0 {
			text += fmt.Sprintf(".%06d", micros)
		}
	}
	return text
}
