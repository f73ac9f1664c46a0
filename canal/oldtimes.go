package canal

import (
	"fmt"

	"replicator/canal/binlog"
)

// measure checks that all row images of an event can be read, before any of them is delivered. The check matters if a
// column's length is uncertain: see binlog.Column.IsOldTime.
func (p *plan) measure(data []byte, parts imageParts) error {
	if p.oldTime < 0 {
		return nil
	}
	part, next := parts.before, parts.after
	for img := (image{}); len(data) > 0; {
		n, err := p.split(data, &img, part)
		if err != nil {
			return fmt.Errorf("row image: %w. Column %s: %w", err, p.columns[p.oldTime].Name, binlog.ErrOldTime)
		}
		if data = data[n:]; parts.pairs {
			part, next = next, part
		}
	}
	return nil
}
