package pipeline

import (
	"context"
	"errors"
	"fmt"

	"replicator"
)

// leastJudged is how many rows of a table a fill must have scanned, unless it has all, until its dead letters are
// judged: a share of few says little.
const leastJudged = 1000

// deadEnough is an error of the views that have more dead letters than a fill may leave behind, for the rows that were
// scanned of a table. What a person has to mend is most likely wrong with all of them, such as a codec, and there may
// be as many letters as rows.
func (f *filler) deadEnough(ctx context.Context, table string, scanned replicator.Progress) error {
	if f.cfg.MostDead >= 1 || scanned.Rows == 0 || scanned.Rows < leastJudged && !scanned.Done {
		return nil
	}
	dead, err := f.cfg.Store.Count(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range f.views.reading(table) {
		if n := dead[v.Name]; float64(n) > f.cfg.MostDead*float64(scanned.Rows) {
			errs = append(errs, replicator.OfView(fmt.Errorf("the fill stopped: %d dead letters after %d rows of table %s are more than "+
				"[limits] dead_letters = \"%g%%\" allows; `replicator deadletters list --view %s` says what is wrong with them: "+
				"mend it, or allow more, and start again", n, scanned.Rows, table, 100*f.cfg.MostDead, v.ShownAs()), v.Name))
		}
	}
	return replicator.Fatal(errors.Join(errs...))
}
