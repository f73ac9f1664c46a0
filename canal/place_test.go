package canal

import (
	"errors"
	"strings"
	"testing"
)

// By its form alone nobody knows which server a text was meant for.
func TestWhatIsNoPlaceIsToldBothFormsOfGTIDs(t *testing.T) {
	_, covers := Covers(`{"file":"binlog.000001","pos":4}`, "zz")
	for text, err := range map[string]error{"x": IsFence("x"), "binlog.x:end": IsFence("binlog.x:end"), "zz": covers} {
		if !errors.Is(err, ErrFence) || !strings.Contains(err.Error(), `"`+text+`" `) ||
			!strings.Contains(err.Error(), "FILE:POS") || !strings.Contains(err.Error(), "uuid:1-3 (MySQL)") ||
			!strings.Contains(err.Error(), "domain-server-sequence (MariaDB)") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"binlog.000001:4", "0-1-2", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3"} {
		if err := IsFence(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
