package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func keepsLayouts(t *testing.T, st store) {
	s := st.open(t)
	check(t, s.KeepLayouts(ctx, map[string]string{"a": `{"columns":[]}`, "b": "é"}))
	check(t, s.KeepLayouts(ctx, map[string]string{"a": "not kept again"}))
	check(t, s.KeepLayouts(ctx, nil))
	check(t, s.Close())
	s = st.open(t)
	for digest, want := range map[string]string{"a": `{"columns":[]}`, "b": "é", "none": ""} {
		if got, err := s.Layout(ctx, digest); got != want || err != nil {
			t.Errorf("layout %s is %q (%v), want %q", digest, got, err, want)
		}
	}
	many := map[string]string{}
	for i := range mostLayouts - 1 {
		many[fmt.Sprintf("%015d", i)] = "x"
	}
	check(t, s.KeepLayouts(ctx, many))
	if got, err := s.Layout(ctx, "a"); got != "" || err != nil {
		t.Errorf("of too many layouts the oldest is still there: %q (%v)", got, err)
	}
	if got, err := s.Layout(ctx, "b"); got == "" || err != nil {
		t.Errorf("of too many layouts more than the oldest one went: %q (%v)", got, err)
	}
}

// A damaged layouts.json only makes the program compare views with their source. It does not prevent a start.
func TestDamagedLayoutsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, layoutsName), []byte(`{"format": 1, "layouts": [{"dig`), 0o600))
	s, err := OpenFile(dir)
	check(t, err)
	defer s.Close()
	if got, err := s.Layout(ctx, "a"); got != "" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
	check(t, s.KeepLayouts(ctx, map[string]string{"a": "kept"}))
	if got, err := s.Layout(ctx, "a"); got != "kept" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}
