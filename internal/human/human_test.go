package human

import (
	"math"
	"testing"
	"time"
)

func TestQuantitiesAreSaidByTheirLargestUnits(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 ms", 0.042: "42 ms", 0.25: "0.2 s", 9.96: "10.0 s", 75: "75 s",
		754: "12 min 34 s", 9000: "2 h 30 min", 6*86400 + 3*3600: "6 d 3 h", math.Inf(1): "106481 d 11 h"} {
		if got := Seconds(&seconds); got != want {
			t.Errorf("%v s: %s, not %s", seconds, got, want)
		}
	}
	if got := Seconds(nil) + Duration(time.Second); got != "–1 s" {
		t.Error(got)
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes: %s, not %s", n, got, want)
		}
	}
}
