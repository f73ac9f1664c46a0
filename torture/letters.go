package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// letters compares the number of each view's dead letters with the model, and returns the differences. The model
// expects a dead letter for each newest body that can't be decoded.
func (w *world) letters(ctx context.Context, of map[string][]entity) ([]string, error) {
	want, got := map[string]int{}, map[string]int{}
	for _, v := range w.plan.Views {
		for _, e := range of[v.Table] {
			for column, body := range e.columns {
				if body == nil && (column != "more" || v.Merged) {
					want[v.Name]++
				}
			}
		}
	}
	out, code := w.command(ctx, "deadletters", "list", "--json")
	if code != 0 {
		return nil, fmt.Errorf("deadletters list: %s", out)
	}
	for line := range strings.Lines(out) {
		var letter struct{ View string }
		if err := json.Unmarshal([]byte(line), &letter); err != nil {
			return nil, fmt.Errorf("deadletters list: %w: %s", err, line)
		}
		got[letter.View]++
	}
	var differ []string
	for _, v := range w.plan.Views {
		if want[v.Name] != got[v.Name] {
			differ = append(differ, fmt.Sprintf("%s: %d dead letters are listed, but %d newest bodies can't be decoded",
				v.Name,
				got[v.Name], want[v.Name]))
		}
	}
	return differ, nil
}
