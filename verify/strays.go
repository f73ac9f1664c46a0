package verify

import (
	"context"
	"slices"
	"time"

	"replicator"
)

// strays counts the sink's strays (contents that belong to no cell), and removes them if the run repairs. It does
// nothing in a run over a sample, because strays have no keys to sample.
func (v *verifier) strays(ctx context.Context) error {
	tidier, ok := v.Target.(replicator.Tidier)
	if !ok || v.Shard > 0 || v.Sample > 0 && v.Sample < 1 {
		return nil
	}
	at := Progress{Doing: "the sink's orphans"}
	for {
		if v.Continue != nil {
			if err := v.Continue(); err != nil {
				return err
			}
		}
		began, limit := time.Now(), v.page()
		strays, next, err := tidier.Strays(ctx, 0, v.after, limit)
		if err != nil {
			v.lost = !v.moved
			return err
		}
		v.moved = true
		strays = slices.DeleteFunc(strays, func(s replicator.Stray) bool { return v.places.has(s.Name) })
		for _, s := range strays {
			v.count(s.Kind, Difference{Key: s.Name, Kind: s.Kind})
		}
		if v.Repair {
			mended, err := tidier.Tidy(ctx, 0, strays)
			if err != nil {
				return err
			}
			v.repaired(mended)
		}
		if v.Progress != nil {
			v.Progress(at) // without a count, because the sink does not say how many entries it read
		}
		if v.after = next; next == "" {
			return nil
		}
		if err := v.throttle(ctx, limit/perListed, began); err != nil {
			return err
		}
	}
}

func (v *verifier) count(kind replicator.DifferenceKind, d Difference) {
	switch kind {
	case replicator.Missing:
		v.result.Missing++
	case replicator.Stale:
		v.result.Stale++
	case replicator.Extra:
		v.result.Extra++
	case replicator.Dead:
		v.result.Dead++
	}
	if len(v.result.Differences) < v.Listed {
		v.result.Differences = append(v.result.Differences, d)
	}
}

func (v *verifier) repaired(n int) { v.result.Repaired += int64(n) }
