// Package verify compares views with the source, and repairs them.
//
// The expected content is computed from the newest rows that the source has now. The actual content is read from the
// sink's data, not from its states. Dead content, which can't be computed or written, is counted separately,
// whatever the list of dead letters says. A repair can't fix it. There are three passes: over the source's cells, for
// missing and stale content; over the sink's cells, for extra content; and over orphans, which are contents that belong
// to no cell (replicator.Tidier). If several sources feed the view, a repair makes a fourth pass, over deleted rows
// that the sink remembers.
//
// A live writer causes no false alarm. A cell that differs is checked again. That check waits until the view includes
// everything that the source had committed when the check read it (Options.Fence). The checks end when the cell is
// right, or when two checks in a row find the same difference, the same newest rows and the same states. The states of
// all cells of the entity are compared, because any cell may make a merged entity differ. A cell that changes all the
// time is left to the pipeline.
//
// A repair resets the cell to the source's row, even if the sink's state already has that version. State.Next judges a
// repair like any other op, so a repair never overwrites newer data. One Apply writes the repair, from one read of the
// source, to the view and to the other views of the sink that the cell feeds (Options.Together). Otherwise two views
// that show the same cell would disagree between two repairs. Only differences of the verified view are counted.
package verify
