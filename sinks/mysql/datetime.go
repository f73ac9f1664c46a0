package mysql

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Dates and times are taken as texts: in the servers' form ("2009-02-27 18:30:05.25") or that of ISO 8601
// ("2009-02-27T18:30:05Z", "…+09:00"). A zone is turned into UTC, which is the session's. Digits of a second beyond the
// column's are an error unless they are zero. Numbers are not taken: seconds or milliseconds, nobody knows.

// moment is a parsed date and time.
type moment struct {
	year, month, day     int
	hour, minute, second int
	fraction             string // digits of a second, without trailing zeros
	zoned                bool
	offset               time.Duration // east of UTC
	timed                bool
}

// asText returns the text of a string or bytes.
func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// parseMoment reads a date, or a date and a time.
func parseMoment(s string) (m moment, ok bool) {
	if len(s) < 10 || s[4] != '-' || s[7] != '-' {
		return m, false
	}
	var good [3]bool
	m.year, good[0] = number(s[:4])
	m.month, good[1] = number(s[5:7])
	m.day, good[2] = number(s[8:10])
	if good != [3]bool{true, true, true} || !m.validDate() {
		return m, false
	}
	if s = s[10:]; s == "" {
		return m, true
	}
	if s[0] != ' ' && s[0] != 'T' && s[0] != 't' {
		return m, false
	}
	m.timed = true
	s = s[1:]
	if s, ok = m.zone(s); !ok {
		return m, false
	}
	return m, m.clock(s)
}

// validDate reports whether the server takes the date without NO_ZERO_DATE and NO_ZERO_IN_DATE: a real day, or one with
// a zero month or day.
func (m *moment) validDate() bool {
	if m.month > 12 || m.day > 31 {
		return false
	}
	return m.partial() || m.day <= time.Date(m.year, time.Month(m.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// partial reports whether the day or the month is not known: 2009-05-00. Such a date is no place in time.
func (m *moment) partial() bool { return m.month == 0 || m.day == 0 }

// zone takes a zone off the end of a time.
func (m *moment) zone(s string) (rest string, ok bool) {
	if rest, ok := strings.CutSuffix(s, "Z"); ok {
		m.zoned = true
		return rest, true
	}
	i := strings.LastIndexAny(s, "+-")
	if i < 0 {
		return s, true
	}
	hours, minutes, colon := strings.Cut(s[i+1:], ":")
	if !colon {
		if len(hours) != 4 {
			return s, false
		}
		hours, minutes = hours[:2], hours[2:]
	}
	h, ok1 := number(hours)
	n, ok2 := number(minutes)
	if !ok1 || !ok2 || h > 14 || n > 59 {
		return s, false
	}
	m.zoned = true
	m.offset = time.Duration(h)*time.Hour + time.Duration(n)*time.Minute
	if s[i] == '-' {
		m.offset = -m.offset
	}
	return s[:i], true
}

// clock reads HH:MM, HH:MM:SS or HH:MM:SS.fraction.
func (m *moment) clock(s string) bool {
	s, fraction, dot := strings.Cut(s, ".")
	if dot && (fraction == "" || strings.Trim(fraction, "0123456789") != "") {
		return false
	}
	m.fraction = strings.TrimRight(fraction, "0")
	parts := strings.Split(s, ":")
	if len(parts) == 2 && !dot {
		parts = append(parts, "00")
	}
	if len(parts) != 3 {
		return false
	}
	var good [3]bool
	m.hour, good[0] = number(parts[0])
	m.minute, good[1] = number(parts[1])
	m.second, good[2] = number(parts[2])
	return good == [3]bool{true, true, true} && m.hour < 24 && m.minute < 60 && m.second < 60
}

// number reads two or more digits.
func number(s string) (int, bool) {
	if len(s) < 2 || len(s) > 4 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// dateTime converts to DATETIME and TIMESTAMP.
func (c *column) dateTime(v any) (any, error) {
	s, ok := asText(v)
	if !ok {
		return nil, c.wrong(v)
	}
	m, ok := parseMoment(s)
	if !ok {
		return nil, c.misfit("a text that is no date and time")
	}
	if len(m.fraction) > c.fraction {
		return nil, c.misfit("the digits of its seconds")
	}
	if m.partial() {
		return c.partialTime(m)
	}
	t := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, 0, time.UTC).Add(-m.offset)
	if t.Year() < 0 || t.Year() > 9999 {
		return nil, c.misfit("the year")
	}
	// MySQL begins a second later, and some servers stop at 2038: they tell. The beginning itself is the zero date.
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

// partialTime writes a partial date with its time. A TIMESTAMP takes of them only the one that is all zeros.
func (c *column) partialTime(m moment) (any, error) {
	zero := m.year+m.month+m.day+m.hour+m.minute+m.second == 0 && m.fraction == ""
	if m.zoned || c.typ == "timestamp" && !zero {
		return nil, c.misfit("a date without a day")
	}
	out := fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d", m.year, m.month, m.day, m.hour, m.minute, m.second)
	if m.fraction != "" {
		out += "." + m.fraction
	}
	return out, nil
}

// date converts to DATE: dates, and times that are a day's beginning.
func (c *column) date(v any) (any, error) {
	s, ok := asText(v)
	if !ok {
		return nil, c.wrong(v)
	}
	m, ok := parseMoment(s)
	if !ok {
		return nil, c.misfit("a text that is no date")
	}
	if m.hour+m.minute+m.second != 0 || m.fraction != "" || m.offset != 0 {
		return nil, c.misfit("the time of day")
	}
	return fmt.Sprintf("%04d-%02d-%02d", m.year, m.month, m.day), nil
}

// timeOfDay converts to TIME: [-]HH:MM:SS[.fraction], up to 838 hours.
func (c *column) timeOfDay(v any) (any, error) {
	s, ok := asText(v)
	if !ok {
		return nil, c.wrong(v)
	}
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	hours, rest, ok := strings.Cut(s, ":")
	h, good := number(hours)
	var m moment
	if !ok || !good || h > 838 || !m.clock("00:"+rest) {
		return nil, c.misfit("a text that is no time")
	}
	if len(m.fraction) > c.fraction {
		return nil, c.misfit("the digits of its seconds")
	}
	out := fmt.Sprintf("%s%02d:%02d:%02d", sign, h, m.minute, m.second)
	if m.fraction != "" {
		if h == 838 && m.minute == 59 && m.second == 59 {
			return nil, c.misfit("the number of hours")
		}
		out += "." + m.fraction
	}
	return out, nil
}
