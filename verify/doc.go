// Package verify compares views with the source, and repairs them.
//
// The expected content is computed from the newest rows that the source has now, and compared with the sink's data.
// There are three passes: over the source's cells, for missing and stale content; over the sink's cells, for extra
// content; and over strays, which are contents that belong to no cell (replicator.Tidier). If several sources feed the
// view, a repair makes a fourth pass, over deleted rows that the sink remembers. Content that can't be computed or
// written (dead) is counted separately, because a repair can't fix it.
//
// A cell that differs is checked again, so that a running pipeline causes no false alarm. That check waits until the
// view includes everything that the source had committed (Options.Fence). A cell is wrong if two checks in a row find
// the same difference, and nothing has changed in between. A cell that changes all the time is left to the pipeline.
//
// A repair writes the source's row, even if the sink should have it already. State.Next judges a repair like any other
// op, so it never overwrites newer data. One Apply writes the repair to all views of the sink that the cell feeds
// (Options.Together). Otherwise two views that show the same cell would disagree. Only differences of the verified view
// are counted.
package verify
