// Package verify compares views with the source, and repairs them.
//
// The expected content is computed from the source's present newest rows (a fenced read). The actual content is read
// from the sink itself, not from its states. Content that can't be computed or held is dead: it is counted separately,
// whatever the list of dead letters says, and no repair helps. There are three passes: over the source's cells, for
// missing and stale content; over the sink's cells, for extra content; and over sink content of no cell at all
// (replicator.Tidier). If several sources feed the view, a repair makes another one, over the sink's remembered rows
// that are gone.
//
// A live writer causes no false alarm. A cell that differs is checked again, after the view had time to include what
// the source had committed when it was read (Options.Fence). That is repeated until the cell is right, or until two
// checks in a row find the same difference, the same newest rows and the same states: those of all cells of the entity,
// because a merged one differs whichever of them changes. A cell that changes all the time is left to the pipeline.
//
// A repair is a reset of the cell to the source's row, written whatever the state says. State.Next judges it like
// everything else, so it never steps back behind the pipeline. It is written to all views of the sink that are kept up
// with this one and that the cell feeds, in one Apply of one read of the source (Options.Together). Otherwise an index
// and its row would disagree between the two repairs. Only the view's own differences are counted.
package verify
