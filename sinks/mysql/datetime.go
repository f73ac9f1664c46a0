package mysql

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Dates and times must be texts, in the servers' form ("2009-02-27 18:30:05.25") or in ISO 8601
// ("2009-02-27T18:30:05Z", "…+09:00"). A time with a zone is converted to UTC, which is the session's time zone.
// Numbers are refused, because they may be seconds or milliseconds.

type moment struct {
	year, month, day     int
	hour, minute, second int
	fraction             string // fractional digits of a second, without trailing zeros
	zoned                bool
	offset               time.Duration // east of UTC
}

func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

var momentForm = regexp.MustCompile(`^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)` +
	`(?:[ Tt](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?` +
	`(?P<zone>Z|[+-](?P<hours>\d\d):?(?P<minutes>\d\d))?)?$`)

func parseMoment(s string) (m moment, ok bool) {
	p := momentForm.FindStringSubmatch(s)
	if p == nil {
		return m, false
	}
	m = moment{year: number(p[1]), month: number(p[2]), day: number(p[3]), hour: number(p[4]), minute: number(p[5]),
		second: number(p[6]), fraction: strings.TrimRight(p[7], "0"), zoned: p[8] != ""}
	hours, minutes := number(p[9]), number(p[10])
	m.offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if strings.HasPrefix(p[8], "-") {
		m.offset = -m.offset
	}
	return m, m.validDate() && m.hour < 24 && m.minute < 60 && m.second < 60 && hours <= 14 && minutes < 60
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// validDate reports whether the server accepts the date without NO_ZERO_DATE and NO_ZERO_IN_DATE: a real date, or one
// whose month or day is zero.
func (m *moment) validDate() bool {
	if m.month > 12 || m.day > 31 {
		return false
	}
	return m.partial() || m.day <= time.Date(m.year, time.Month(m.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// partial reports whether the day or the month is unknown, as in 2009-05-00. Such a date is not a point in time.
func (m *moment) partial() bool { return m.month == 0 || m.day == 0 }

func (c *column) dateTime(v any) (any, error) {
	s, ok := asText(v)
	if !ok {
		return nil, c.wrong(v)
	}
	m, ok := parseMoment(s)
	if !ok {
		return nil, c.misfit("a text that is not a date and time")
	}
	if n := len(m.fraction); n > c.fraction {
		return nil, c.misfit(fmt.Sprintf("a fraction of a second with %d digits", n))
	}
	if m.partial() {
		return c.partialTime(m)
	}
	t := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, 0, time.UTC).Add(-m.offset)
	if t.Year() < 0 || t.Year() > 9999 {
		return nil, c.misfit("the year")
	}
	// In a TIMESTAMP, 1970-01-01 00:00:00 is the zero date. MySQL itself refuses the rest of that second, and some
	// servers refuse times after 2038.
	first := t.Unix() == 0 && m.fraction == ""
	if c.typ == "timestamp" && (first || t.Unix() < 0 || t.Unix() > math.MaxUint32) {
		return nil, c.misfit("a time before 1970 or after 2106")
	}
	out := t.Format("2006-01-02 15:04:05")
	if m.fraction != "" {
		out += "." + m.fraction
	}
	return out, nil
}

// partialTime formats a date and time whose month or day is zero. The only such value that a TIMESTAMP accepts is all
// zeros.
func (c *column) partialTime(m moment) (any, error) {
	zero := m.year+m.month+m.day+m.hour+m.minute+m.second == 0 && m.fraction == ""
	if m.zoned || c.typ == "timestamp" && !zero {
		return nil, c.misfit("a date without a month or day")
	}
	out := fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d", m.year, m.month, m.day, m.hour, m.minute, m.second)
	if m.fraction != "" {
		out += "." + m.fraction
	}
	return out, nil
}

// date converts a text to DATE. It accepts dates, and times at midnight.
func (c *column) date(v any) (any, error) {
	s, ok := asText(v)
	if !ok {
		return nil, c.wrong(v)
	}
	m, ok := parseMoment(s)
	if !ok {
		return nil, c.misfit("a text that is not a date")
	}
	if m.hour+m.minute+m.second != 0 || m.fraction != "" || m.offset != 0 {
		return nil, c.misfit("the time of day")
	}
	return fmt.Sprintf("%04d-%02d-%02d", m.year, m.month, m.day), nil
}

var timeForm = regexp.MustCompile(
	`^(?P<sign>-?)(?P<hours>\d{2,3}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?$`)

// timeOfDay converts to TIME: [-]HH:MM:SS[.fraction], up to 838 hours.
func (c *column) timeOfDay(v any) (any, error) {
	s, ok := asText(v)
	if !ok {
		return nil, c.wrong(v)
	}
	p := timeForm.FindStringSubmatch(s)
	if p == nil || number(p[2]) > 838 || number(p[3]) > 59 || number(p[4]) > 59 {
		return nil, c.misfit("a text that is not a time")
	}
	fraction := strings.TrimRight(p[5], "0")
	if n := len(fraction); n > c.fraction {
		return nil, c.misfit(fmt.Sprintf("a fraction of a second with %d digits", n))
	}
	out := fmt.Sprintf("%s%02d:%02d:%02d", p[1], number(p[2]), number(p[3]), number(p[4]))
	if fraction != "" { // only MariaDB accepts 838:59:59.5; MySQL returns an error
		out += "." + fraction
	}
	return out, nil
}
