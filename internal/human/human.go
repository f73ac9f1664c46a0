// Package human formats quantities for people, on the status page and in terminals.
package human

import (
	"fmt"
	"time"
)

// most is the longest time.Duration, in seconds, rounded down.
const most = 9.2e9

// Seconds formats a number of seconds; nil means unknown.
func Seconds(seconds *float64) string {
	switch {
	case seconds == nil:
		return "–"
	case *seconds < 0.1:
		return fmt.Sprintf("%.0f ms", 1000**seconds)
	case *seconds < 10:
		return fmt.Sprintf("%.1f s", *seconds)
	}
	return Duration(time.Duration(min(*seconds, most) * float64(time.Second)))
}

// Duration formats a duration, in seconds below two minutes, and otherwise with its two largest units.
func Duration(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Bytes formats a size.
func Bytes(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
