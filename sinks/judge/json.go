package judge

import (
	"errors"
	"fmt"
	"math"

	"replicator"
)

// FitsJSON says why JSON could hold a value only if it were changed, or the target not at all because it is nested
// deeper than that takes; nil if it can be held as it is.
func FitsJSON(value any, maxDepth int) error { return fitsJSON(value, 0, maxDepth) }

func fitsJSON(value any, depth, maxDepth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case nil, bool, int64, uint64, []byte, replicator.Number, replicator.RawJSON:
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("it is not a finite number, which JSON can't say")
		}
	case string:
		if !replicator.ValidText(v) {
			return errors.New("it is text that is not valid UTF-8")
		}
	case []any:
		for _, e := range v {
			if err := fitsJSON(e, depth+1, maxDepth); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, e := range v {
			if !replicator.ValidText(name) {
				return errors.New("it has a member whose name is not valid UTF-8")
			}
			if err := fitsJSON(e, depth+1, maxDepth); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("a %T is nothing that JSON can hold", v)
	}
	return nil
}
